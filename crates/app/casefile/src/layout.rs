//! The order of a prompt: from what never changes to what always does, so that each question's prompt begins
//! like the last one's for as long as it can.
//!
//! ```text
//! instructions, tools, file      the same for every question
//! earlier turns                  grow at their end
//! retrieved paragraphs           differ from question to question
//! time and user                  differ from call to call
//! question                       always new
//! ```

use tapri_pipeline::api::{Message, OutlinePart, PartKind, Prompt, Stop, TemplateUse};

/// How the parts become a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Messages, for a model that is tuned to answer and has a chat template.
    Chat,
    /// Plain text that a base model goes on from: the file, then questions and answers.
    Completion,
}

/// A question that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What was asked.
    pub question: String,
    /// What came back.
    pub answer: String,
}

/// The parts of a prompt, in their order. Empty ones are left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parts<'a> {
    /// What the model is to do.
    pub instructions: &'a str,
    /// What it may call.
    pub tools: &'a str,
    /// The document.
    pub file: &'a str,
    /// Earlier questions and answers, oldest first.
    pub turns: &'a [Turn],
    /// Paragraphs found for this question.
    pub retrieved: &'a [String],
    /// The time, the user's name: whatever is true for this call alone.
    pub moment: &'a str,
    /// The question.
    pub question: &'a str,
}

/// The instructions of a chat about a file.
const INSTRUCTIONS: &str = "Answer questions about the document below. Use only what it says, and answer \
                                       in one or two short sentences.";

/// What a base model reads between the file and the first question: with it, the small Gemma names all four States
/// of the case file's compact; without it, three and a wrong one.
const LEAD: &str = "Questions about the document above, each with its answer.";

impl Layout {
    /// For a model with a template of its own, or one that wasn't tuned to answer: it gets plain text.
    pub fn of(template: Option<TemplateUse>) -> Layout {
        match template {
            Some(TemplateUse::ChatMlFallback) => Layout::Completion,
            Some(TemplateUse::Own) | None => Layout::Chat,
        }
    }

    /// The prompt.
    pub fn prompt(self, parts: &Parts<'_>) -> Prompt {
        match self {
            Layout::Chat => Prompt::Chat(messages(parts)),
            Layout::Completion => Prompt::Text(completion(parts)),
        }
    }

    /// The parts of the prompt by name, for records and explanations. The file comes as its pages, whose texts are
    /// shared: see [`pages`].
    pub fn outline(self, parts: &Parts<'_>, pages: &[OutlinePart]) -> Vec<OutlinePart> {
        let mut outline = Vec::with_capacity(pages.len() + 2 * parts.turns.len() + 6);
        let mut add = |kind, path: String, text: &str| {
            if !text.is_empty() {
                outline.push(OutlinePart::new(kind, path, text));
            }
        };
        add(PartKind::System, "instructions".to_owned(), parts.instructions);
        add(PartKind::Tools, "tools".to_owned(), parts.tools);
        outline.extend(pages.iter().cloned());
        let mut add = |path: String, text: &str| {
            if !text.is_empty() {
                outline.push(OutlinePart::new(PartKind::Message, path, text));
            }
        };
        for (i, turn) in parts.turns.iter().enumerate() {
            add(format!("turns[{i}].question"), &turn.question);
            add(format!("turns[{i}].answer"), &turn.answer);
        }
        for (i, paragraph) in parts.retrieved.iter().enumerate() {
            add(format!("retrieved[{i}]"), paragraph);
        }
        add("moment".to_owned(), parts.moment);
        add("question".to_owned(), parts.question);
        outline
    }

    /// The instructions where nobody wrote others.
    pub fn instructions(self) -> &'static str {
        match self {
            Layout::Chat => INSTRUCTIONS,
            // A base model takes instructions for a part of the text, and goes on in kind.
            Layout::Completion => "",
        }
    }

    /// What ends an answer, besides the model's own end.
    pub fn stop(self) -> Stop {
        match self {
            Layout::Chat => Stop::default(),
            // A base model would go on with a question of its own; an answer is one line.
            Layout::Completion => {
                Stop { strings: vec!["\n".to_owned(), "Question:".to_owned()], ..Stop::default() }
            }
        }
    }

    /// The answer, as the next turn should carry it.
    pub fn tidy(self, answer: &str) -> &str {
        answer.trim()
    }
}

/// A file's text by its pages, which a form feed parts. A text without one is one page.
pub fn pages(file: &str) -> Vec<OutlinePart> {
    file.split('\u{c}')
        .enumerate()
        .map(|(i, page)| OutlinePart::new(PartKind::Page, format!("file.pages[{i}]"), page))
        .collect()
}

fn joined(parts: &[&str]) -> String {
    let kept: Vec<_> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    kept.join("\n\n")
}

fn messages(parts: &Parts<'_>) -> Vec<Message> {
    let mut messages = Vec::with_capacity(2 + 2 * parts.turns.len());
    let file =
        if parts.file.is_empty() { String::new() } else { format!("Document:\n{}", parts.file) };
    let fixed = joined(&[parts.instructions, parts.tools, &file]);
    if !fixed.is_empty() {
        messages.push(Message::system(fixed));
    }
    for turn in parts.turns {
        messages.push(Message::user(turn.question.clone()));
        messages.push(Message::assistant(turn.answer.clone()));
    }
    messages.push(Message::user(joined(&[
        &parts.retrieved.join("\n\n"),
        parts.moment,
        parts.question,
    ])));
    messages
}

fn completion(parts: &Parts<'_>) -> String {
    let lead = if parts.file.is_empty() { "" } else { LEAD };
    let mut text = joined(&[parts.instructions, parts.tools, parts.file, lead]);
    let mut add = |part: &str| {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(part);
    };
    for turn in parts.turns {
        add(&format!("Question: {}\nAnswer: {}", turn.question, turn.answer));
    }
    for paragraph in parts.retrieved {
        add(paragraph);
    }
    if !parts.moment.is_empty() {
        add(parts.moment);
    }
    add(&format!("Question: {}\nAnswer:", parts.question));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_part<'a>(turns: &'a [Turn], retrieved: &'a [String]) -> Parts<'a> {
        Parts {
            instructions: "<instructions>",
            tools: "<tools>",
            file: "<file>",
            turns,
            retrieved,
            moment: "<moment>",
            question: "<question>",
        }
    }

    const ORDER: [&str; 8] = [
        "<instructions>",
        "<tools>",
        "<file>",
        "<earlier question>",
        "<earlier answer>",
        "<retrieved>",
        "<moment>",
        "<question>",
    ];

    #[test]
    fn from_what_never_changes_to_what_always_does() {
        let turns =
            [Turn { question: "<earlier question>".into(), answer: "<earlier answer>".into() }];
        let retrieved = ["<retrieved>".to_owned()];
        let parts = every_part(&turns, &retrieved);
        for layout in [Layout::Chat, Layout::Completion] {
            let text = match layout.prompt(&parts) {
                Prompt::Text(text) => text,
                Prompt::Chat(messages) => {
                    messages.iter().map(Message::text).collect::<Vec<_>>().join("\n")
                }
                Prompt::Tokens(_) | Prompt::Request(_) => unreachable!(),
            };
            let places: Vec<_> =
                ORDER.iter().map(|part| text.find(part).map_or(usize::MAX, |at| at)).collect();
            assert!(
                places.is_sorted() && places[7] < usize::MAX,
                "{layout:?}: {places:?} in {text}"
            );
        }
    }

    #[test]
    fn the_outline_has_every_part_in_the_prompts_order() {
        let turns =
            [Turn { question: "<earlier question>".into(), answer: "<earlier answer>".into() }];
        let retrieved = ["<retrieved>".to_owned()];
        let parts = every_part(&turns, &retrieved);
        let outline = Layout::Chat.outline(&parts, &pages("<file>\u{c}second page"));
        let read: Vec<_> =
            outline.iter().map(|part| (part.kind, &*part.path, &*part.text)).collect();
        let message = PartKind::Message;
        assert_eq!(
            read,
            [
                (PartKind::System, "instructions", "<instructions>"),
                (PartKind::Tools, "tools", "<tools>"),
                (PartKind::Page, "file.pages[0]", "<file>"),
                (PartKind::Page, "file.pages[1]", "second page"),
                (message, "turns[0].question", "<earlier question>"),
                (message, "turns[0].answer", "<earlier answer>"),
                (message, "retrieved[0]", "<retrieved>"),
                (message, "moment", "<moment>"),
                (message, "question", "<question>"),
            ]
        );
        let empty = Parts { question: "q", ..Parts::default() };
        assert_eq!(Layout::Completion.outline(&empty, &[]).len(), 1);
    }

    #[test]
    fn the_next_prompt_begins_with_the_whole_last_turn() {
        let turns = [Turn { question: "q1".into(), answer: "a1".into() }];
        let before = Parts { file: "f", question: "q1", ..Parts::default() };
        let after = Parts { file: "f", turns: &turns, question: "q2", ..Parts::default() };
        let (Prompt::Text(before), Prompt::Text(after)) =
            (Layout::Completion.prompt(&before), Layout::Completion.prompt(&after))
        else {
            unreachable!()
        };
        assert!(after.starts_with(&format!("{before} a1")), "{after}");
    }

    #[test]
    fn parts_that_are_empty_leave_no_trace() {
        let parts = Parts { question: "q", ..Parts::default() };
        assert_eq!(Layout::Completion.prompt(&parts), Prompt::Text("Question: q\nAnswer:".into()));
        assert_eq!(Layout::Chat.prompt(&parts), Prompt::Chat(vec![Message::user("q")]));
    }
}
