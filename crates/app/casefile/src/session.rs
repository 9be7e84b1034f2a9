//! Questions about one document, and the room they have.

use std::borrow::Cow;

use tapri_pipeline::api::{Outline, OutlinePart, Prompt, Stop};

use crate::layout::pages;
use crate::{Document, Layout, Parts, Turn};

/// How many tokens there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Prompt and answer together.
    pub context: usize,
    /// Kept free for the answer.
    pub answer: usize,
}

impl Room {
    /// What is left for the prompt.
    pub fn prompt(self) -> usize {
        self.context.saturating_sub(self.answer)
    }
}

/// Questions about one document.
#[derive(Debug, Clone)]
pub struct Session {
    document: Document,
    layout: Layout,
    room: Room,
    instructions: Cow<'static, str>,
    /// Tools as the outline names them. How they reach the model is the caller's to know.
    tools: String,
    turns: Vec<Turn>,
    /// The document's text once more, by page: every question's outline shares it.
    pages: Vec<OutlinePart>,
}

/// A question's prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// What the model reads.
    pub prompt: Prompt,
    /// What it is made of.
    pub outline: Outline,
    /// What ends the answer.
    pub stop: Stop,
    /// The prompt's length in tokens.
    pub tokens: usize,
    /// Turns that had to go for it; the person should be told.
    pub dropped: Option<Dropped>,
}

/// Turns that a session let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// How many went, the oldest.
    pub turns: usize,
    /// How many are left.
    pub left: usize,
}

/// Why a question can't be asked. `E` is the tokenizer's own error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError<E> {
    /// Document and question don't fit, even without earlier turns.
    #[error(
        "the document with this question is {tokens} tokens long and the model takes {room}: \
         its context of {context} less {answer} for the answer"
    )]
    TooLong {
        /// Tokens of the prompt without earlier turns.
        tokens: usize,
        /// Tokens that a prompt may have.
        room: usize,
        /// The model's context.
        context: usize,
        /// Kept for the answer.
        answer: usize,
    },
    /// The prompt could not be counted.
    #[error(transparent)]
    Count(E),
}

impl Session {
    /// A session without turns.
    pub fn new(document: Document, layout: Layout, room: Room) -> Self {
        let instructions = Cow::Borrowed(layout.instructions());
        let pages = pages(document.text());
        Session {
            document,
            layout,
            room,
            instructions,
            tools: String::new(),
            turns: Vec::new(),
            pages,
        }
    }

    /// The same with instructions of the person's own, and tools that the model is offered.
    #[must_use]
    pub fn instructed(self, instructions: Option<String>, tools: String) -> Self {
        let instructions = instructions.map_or(self.instructions, Cow::Owned);
        Session { instructions, tools, ..self }
    }

    /// The same with turns of an earlier time, oldest first.
    #[must_use]
    pub fn resumed(self, turns: Vec<Turn>) -> Self {
        Session { turns, ..self }
    }

    /// The document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// How prompts are laid out.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Earlier turns that are still there, oldest first.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Keeps a turn for the questions that follow.
    pub fn keep(&mut self, question: &str, answer: &str) {
        let answer = self.layout.tidy(answer);
        self.turns.push(Turn { question: question.to_owned(), answer: answer.to_owned() });
    }

    fn parts<'a>(&'a self, turns: &'a [Turn], question: &'a str) -> Parts<'a> {
        Parts {
            instructions: &self.instructions,
            file: self.document.text(),
            turns,
            question,
            ..Parts::default()
        }
    }

    fn outline(&self, question: &str) -> Outline {
        let parts = Parts { tools: &self.tools, ..self.parts(&self.turns, question) };
        Outline::Parts(self.layout.outline(&parts, &self.pages).into())
    }

    /// The prompt for a question. `count` says how many tokens a prompt becomes.
    ///
    /// When earlier turns outgrow the context, the oldest go in one step until those that are left take half
    /// of the room that turns have. A smaller step would have to be repeated soon, and after each the model reads
    /// again whatever follows the place where the turns went.
    ///
    /// # Errors
    /// [`SessionError::TooLong`] when document and question alone don't fit; the session is as it was.
    pub fn prepare<E>(
        &mut self,
        question: &str,
        mut count: impl FnMut(&Prompt) -> Result<usize, E>,
    ) -> Result<Prepared, SessionError<E>> {
        let room = self.room.prompt();
        let mut tokens_from = |session: &Session, first: usize| {
            let prompt = session.layout.prompt(&session.parts(&session.turns[first..], question));
            count(&prompt).map(|tokens| (prompt, tokens)).map_err(SessionError::Count)
        };
        let stop = self.layout.stop();
        let (prompt, tokens) = tokens_from(self, 0)?;
        if tokens <= room {
            let outline = self.outline(question);
            return Ok(Prepared { prompt, outline, stop, tokens, dropped: None });
        }
        let all = self.turns.len();
        let (mut prompt, mut tokens) = tokens_from(self, all)?;
        if tokens > room {
            let Room { context, answer } = self.room;
            return Err(SessionError::TooLong { tokens, room, context, answer });
        }
        // The most turns from the end that fit half of the room; fewer turns are never more tokens.
        let half = tokens + (room - tokens) / 2;
        let (mut first, mut too_many) = (all, 0);
        while first - too_many > 1 {
            let middle = too_many + (first - too_many) / 2;
            let tried = tokens_from(self, middle)?;
            if tried.1 <= half {
                (first, (prompt, tokens)) = (middle, tried);
            } else {
                too_many = middle;
            }
        }
        self.turns.drain(..first);
        let dropped = Some(Dropped { turns: first, left: self.turns.len() });
        let outline = self.outline(question);
        Ok(Prepared { prompt, outline, stop, tokens, dropped })
    }
}
