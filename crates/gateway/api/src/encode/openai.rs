//! OpenAI's chat completions and completions.

mod choice;

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Head, frame};
use crate::event::{CallEvent, Says};
use crate::openai::wire::{ChatChoice, Delta, Envelope, Message, Said, TextChoice, json};
use crate::{Finish, Format};
use choice::Choice;

/// Writes one call's answers.
#[derive(Debug, Default)]
pub(super) struct Writer {
    choices: BTreeMap<usize, Choice>,
}

impl Writer {
    /// Takes in what a body will say.
    pub(super) fn add(&mut self, head: &Head, event: &CallEvent) {
        match event {
            CallEvent::Token(token) => self.choice(0).add(head.format, &Says::Token(token.clone())),
            CallEvent::Piece(piece) => {
                for delta in &piece.deltas {
                    self.choice(delta.choice).add(head.format, &delta.says);
                }
            }
            _ => {}
        }
    }

    fn choice(&mut self, at: usize) -> &mut Choice {
        self.choices.entry(at).or_default()
    }

    pub(super) fn body(
        &mut self,
        head: &Head,
        finish: &Finish,
        usage: Option<Value>,
        note: Option<Value>,
    ) -> String {
        self.choice(0).add(head.format, &Says::Text(finish.tail.clone()));
        let usage = usage.map(Some);
        let note = note.as_ref();
        if head.format == Format::Completion {
            let choices: Vec<TextChoice<'_>> = self
                .choices
                .iter()
                .map(|(&index, choice)| TextChoice {
                    index,
                    text: &choice.text,
                    logprobs: choice.logprobs.as_ref(),
                    prompt_logprobs: choice.prompt(),
                    finish_reason: Some(choice.reason(finish)),
                })
                .collect();
            return json(&envelope(head, false, &choices, usage, note));
        }
        let choices: Vec<ChatChoice<'_>> = self
            .choices
            .iter()
            .map(|(&index, choice)| ChatChoice {
                index,
                said: Said::Message(message(choice)),
                logprobs: choice.logprobs.as_ref(),
                finish_reason: Some(choice.reason(finish)),
            })
            .collect();
        // All answers have the same prompt, and a chat completion tells of it once.
        let prompt_logprobs = self.choices.get(&0).and_then(Choice::prompt);
        json(&Envelope { prompt_logprobs, ..envelope(head, false, &choices, usage, note) })
    }

    pub(super) fn event(&mut self, head: &Head, event: &CallEvent, out: &mut String) {
        match event {
            CallEvent::Token(token) => {
                self.say(
                    head,
                    0,
                    |choice| choice.add(head.format, &Says::Token(token.clone())),
                    out,
                );
            }
            CallEvent::Piece(piece) => {
                let mut deltas = piece.deltas.as_slice();
                while let Some(first) = deltas.first() {
                    let at = first.choice;
                    let same = deltas.iter().take_while(|delta| delta.choice == at).count();
                    let (now, rest) = deltas.split_at(same);
                    let add = |choice: &mut Choice| {
                        now.iter().for_each(|delta| choice.add(head.format, &delta.says));
                    };
                    self.say(head, at, add, out);
                    deltas = rest;
                }
            }
            _ => {}
        }
    }

    /// One chunk with all that is added to an answer.
    fn say(&mut self, head: &Head, at: usize, add: impl FnOnce(&mut Choice), out: &mut String) {
        let choice = self.choice(at);
        add(choice);
        if !choice.has_news() {
            return;
        }
        if head.format == Format::Completion {
            let said = TextChoice {
                index: at,
                text: &choice.text,
                logprobs: choice.logprobs.as_ref(),
                prompt_logprobs: choice.prompt(),
                finish_reason: choice.news_of_end(),
            };
            chunk(head, &[said], None, out);
        } else if choice.tells_of_prompt_alone() {
            if at == 0 {
                chunk::<ChatChoice<'_>>(head, &[], choice.prompt(), out);
            }
        } else {
            if !std::mem::replace(&mut choice.begun, true) {
                // Sent together with the first words, so that a client that times its first chunk times those.
                let first =
                    Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
                chunk(head, &[delta(at, first)], None, out);
            }
            let said = ChatChoice {
                index: at,
                said: Said::Delta(choice.delta()),
                logprobs: choice.logprobs.as_ref(),
                finish_reason: choice.news_of_end(),
            };
            chunk(head, &[said], None, out);
        }
        choice.sent();
    }

    pub(super) fn finish(
        &mut self,
        head: &Head,
        finish: &Finish,
        usage: Option<Value>,
        note: Option<Value>,
        out: &mut String,
    ) {
        self.choice(0);
        if head.format == Format::Chat && !finish.tail.is_empty() {
            let tail = Says::Text(finish.tail.clone());
            self.say(head, 0, |choice| choice.add(head.format, &tail), out);
        }
        let open: Vec<usize> =
            self.choices.iter().filter(|(_, it)| it.end.is_none()).map(|(&at, _)| at).collect();
        for at in open {
            let reason = finish.reason;
            let tail = if at == 0 { finish.tail.as_str() } else { "" };
            let end = Says::End { reason, matched_stop: finish.matched_stop.clone() };
            let add = |choice: &mut Choice| {
                if head.format == Format::Completion {
                    choice.add(head.format, &Says::Text(tail.to_owned()));
                }
                choice.add(head.format, &end);
            };
            self.say(head, at, add, out);
        }
        let usage = if head.include_usage { Some(usage) } else { None };
        if usage.is_some() || note.is_some() {
            last_chunk(head, usage, note.as_ref(), out);
        }
        frame(None, "[DONE]", out);
    }
}

fn message(choice: &Choice) -> Message<'_> {
    let calls = choice.calls(false);
    // With nothing said, a call or a refusal stands alone; an empty answer is an empty text.
    let alone = !calls.is_empty() || !choice.refusal.is_empty();
    let some = |text: &'_ str| (!text.is_empty()).then_some(());
    Message {
        role: "assistant",
        content: (some(&choice.text).is_some() || !alone).then_some(&choice.text),
        refusal: some(&choice.refusal).map(|()| choice.refusal.as_str()),
        reasoning_content: some(&choice.thinking).map(|()| choice.thinking.as_str()),
        tool_calls: calls,
        thinking_blocks: &choice.thoughts,
        other: &choice.other,
    }
}

fn delta(index: usize, delta: Delta<'_>) -> ChatChoice<'_> {
    ChatChoice { index, said: Said::Delta(delta), logprobs: None, finish_reason: None }
}

fn chunk<C: serde::Serialize>(
    head: &Head,
    choices: &[C],
    prompt_logprobs: Option<&[Value]>,
    out: &mut String,
) {
    // With the usage asked for, every chunk but the last says that it has none.
    let usage = head.include_usage.then_some(None);
    let envelope = Envelope { prompt_logprobs, ..envelope(head, true, choices, usage, None) };
    frame(None, &json(&envelope), out);
}

/// The chunk after the answer, with the usage and what Tapri has to say.
pub(super) fn last_chunk(
    head: &Head,
    usage: Option<Option<Value>>,
    note: Option<&Value>,
    out: &mut String,
) {
    frame(None, &json(&envelope::<TextChoice<'_>>(head, true, &[], usage, note)), out);
}

fn envelope<'a, C>(
    head: &'a Head,
    chunk: bool,
    choices: &'a [C],
    usage: Option<Option<Value>>,
    tapri: Option<&'a Value>,
) -> Envelope<'a, C> {
    let object = match head.format {
        Format::Completion => "text_completion",
        _ if chunk => "chat.completion.chunk",
        _ => "chat.completion",
    };
    Envelope {
        id: &head.id,
        object,
        created: head.created,
        model: &head.model,
        system_fingerprint: head.fingerprint.as_deref(),
        choices,
        usage,
        prompt_logprobs: None,
        tapri,
    }
}
