//! Tools on an engine that knows only text: how they are shown to the model, how its calls are kept to their schemas,
//! and how calls are found in what it says.
//!
//! - **Shown** by the model's own chat template where it has a place for tools and writes calls in a form that is known
//!   here ([`Form`]). Where it hasn't, instructions in the form of Nous Research's Hermes models, which many models have
//!   seen, go into the system message.
//! - **Kept** by a grammar wherever the caller asks for something that the model alone can't promise: `required`, a tool
//!   by name, `none`, strict arguments, one call at most. The prompt is the same whatever the choice, so that its cache is.
//! - **Found** by a parser that reads the answer as it comes. What looks like a call and is none is text.
//!
//! `dialect` says which of these a model has, `show` lays out messages, `grammar` writes the grammars, `hermes` and
//! `llama` are the parsers, over `scan`.

use tapri_api::{Call, OutputFormat, ToolChoice};

mod dialect;
mod grammar;
mod hermes;
mod llama;
mod scan;
mod show;

pub(super) use dialect::{Dialect, Form};
pub(super) use grammar::{answer, fallback};
pub(super) use show::render;

/// What a parser finds in an answer, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Text of the answer.
    Text(String),
    /// A call begins.
    Call {
        /// Which of this answer, from 0.
        index: usize,
        /// The tool.
        name: String,
    },
    /// More of its arguments.
    Arguments {
        /// Whose.
        index: usize,
        /// JSON text to append.
        json: String,
    },
}

/// Finds calls in an answer as it comes.
#[derive(Debug, Clone)]
pub(super) enum Parser {
    Hermes(hermes::Hermes),
    Llama(llama::Llama),
}

impl Parser {
    /// The parser for a call's answer; `None` if it can have no tool calls.
    pub(super) fn new(form: Form, call: &Call) -> Option<Self> {
        if call.tools.is_empty() || call.tool_choice == ToolChoice::None {
            return None;
        }
        let held = grammar::holds(call);
        Some(match form {
            Form::Hermes => Parser::Hermes(hermes::Hermes::new(held)),
            Form::Llama => {
                let names = call.tools.iter().map(|tool| tool.name.clone()).collect();
                Parser::Llama(llama::Llama::new(held, names))
            }
        })
    }

    /// Takes more of the answer's text.
    pub(super) fn push(&mut self, text: &str, found: &mut Vec<Found>) {
        match self {
            Parser::Hermes(parser) => parser.push(text, found),
            Parser::Llama(parser) => parser.push(text, found),
        }
    }

    /// The answer has ended.
    pub(super) fn finish(&mut self, found: &mut Vec<Found>) {
        match self {
            Parser::Hermes(parser) => parser.finish(found),
            Parser::Llama(parser) => parser.finish(found),
        }
    }
}

/// Whether the call's answer may be text that has a shape of its own.
fn shaped(call: &Call) -> bool {
    call.output != OutputFormat::Text
}
