//! What an answer tells of its prompt: the prompt itself (`echo`), and the logprobs of its tokens.

use serde_json::Value;
use tapri_api::openai::prompt_entry;
use tapri_api::{Call, Prompt, Says, Token};
use tapri_engine::{Engine, PromptLogprobs, TokenId};
use tapri_text::{ControlTokens, Detokenizer};

use super::convert;

/// How many rivals of the prompt's tokens are to be computed, if their logprobs are asked for in either way.
pub(super) fn rows(call: &Call) -> Option<u32> {
    echo_logprobs(call).into_iter().chain(call.prompt_logprobs).max()
}

/// The logprobs of a completion are those of the prompt as well where it is said again.
fn echo_logprobs(call: &Call) -> Option<u32> {
    call.logprobs.filter(|_| call.echo)
}

/// What is told of a prompt, as it is read.
#[derive(Debug)]
pub(super) struct Told {
    tokens: Vec<TokenId>,
    /// The text of each token, where the prompt is said again.
    echo: Option<Vec<String>>,
    /// Rivals in what is said again; `None` without logprobs.
    echo_top: Option<usize>,
    /// Rivals in vLLM's list, if it is asked for.
    list_top: Option<usize>,
    /// Tokens that were told.
    upto: usize,
}

impl Told {
    /// Nothing where nothing is asked for.
    pub(super) fn of(engine: &Engine, call: &Call, prompt: &[TokenId]) -> Option<Told> {
        if !call.echo && call.prompt_logprobs.is_none() {
            return None;
        }
        let top = |top: u32| top as usize;
        Some(Told {
            tokens: prompt.to_vec(),
            echo: call.echo.then(|| texts(engine, &call.prompt, prompt)),
            echo_top: echo_logprobs(call).map(top),
            list_top: call.prompt_logprobs.map(top),
            upto: 0,
        })
    }

    /// What can be told when the call starts: all that has no logprobs.
    pub(super) fn begin(&mut self) -> Vec<Says> {
        let mut says = Vec::new();
        let upto = if self.echo_top.is_some() { 1 } else { self.tokens.len() };
        let tokens = (0..upto).filter_map(|at| self.token(at)).collect();
        if self.echo.is_some() {
            says.push(Says::Echo { tokens, scored: self.echo_top.is_some() });
        }
        if self.list_top.is_some() {
            says.push(Says::PromptLogprobs(vec![Value::Null]));
        }
        self.upto = 1;
        says
    }

    /// The next tokens' logprobs.
    pub(super) fn go_on(&mut self, scores: Vec<PromptLogprobs>) -> Vec<Says> {
        let (mut tokens, mut entries) = (Vec::new(), Vec::new());
        for PromptLogprobs { logprobs, rank } in scores {
            let mut logprobs = convert::logprobs(logprobs);
            if let Some(top) = self.list_top {
                entries.push(prompt_entry(&logprobs, rank, top));
            }
            if let (Some(top), Some(token)) = (self.echo_top, self.token(self.upto)) {
                logprobs.top.truncate(top);
                tokens.push(Token { logprobs: Some(logprobs), ..token });
            }
            self.upto += 1;
        }
        let mut says = Vec::new();
        if !tokens.is_empty() {
            says.push(Says::Echo { tokens, scored: true });
        }
        if !entries.is_empty() {
            says.push(Says::PromptLogprobs(entries));
        }
        says
    }

    fn token(&self, at: usize) -> Option<Token> {
        let text = self.echo.as_ref()?.get(at)?.clone();
        Some(Token { id: self.tokens.get(at)?.0, text, logprobs: None })
    }
}

/// The text that each token adds. A prompt that was given as text is said as it was: without the token that the
/// tokenizer puts before it, and without its space. Of one given as ids, control tokens are written as they are called.
fn texts(engine: &Engine, prompt: &Prompt, tokens: &[TokenId]) -> Vec<String> {
    let given = match prompt {
        Prompt::Text(text) => Some(text),
        _ => None,
    };
    let control = if given.is_some() { ControlTokens::Hide } else { ControlTokens::Show };
    let mut detokenizer = Detokenizer::new(engine.tokenizer(), control);
    let mut texts: Vec<String> =
        tokens.iter().map(|token| detokenizer.push(*token).to_owned()).collect();
    let rest = detokenizer.finish();
    if let Some(last) = texts.last_mut() {
        last.push_str(rest);
    }
    let first = texts.iter_mut().find(|text| !text.is_empty());
    if let (Some(given), Some(first)) = (given, first)
        && first.starts_with(' ')
        && !given.starts_with(' ')
    {
        first.remove(0);
    }
    texts
}
