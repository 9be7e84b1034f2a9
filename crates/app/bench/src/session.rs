//! The session: one file, many questions, one after another.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::client::{Completion, complete};
use crate::report;
use crate::statistics::median;

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) file: String,
    pub(crate) questions: Vec<String>,
    pub(crate) max_tokens: u32,
    pub(crate) model: Option<String>,
}

/// What one session took.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SessionResult {
    /// Seconds to the first token of the first question.
    pub(crate) first_ttft_seconds: f64,
    /// Median seconds to the first token of the later questions.
    pub(crate) later_ttft_seconds: f64,
    /// Median answer tokens a second of all questions.
    pub(crate) decode_tokens_per_second: f64,
    /// Seconds from the first request to the last token.
    pub(crate) total_seconds: f64,
    /// Prompt tokens of all questions.
    pub(crate) prompt_tokens: u64,
    /// Prompt tokens that the server says it reused.
    pub(crate) cached_tokens: Option<u64>,
    /// Each question's own figures.
    pub(crate) calls: Vec<Completion>,
}

impl Session {
    /// The same text for every server: what never changes first, the question last.
    pub(crate) fn prompt(&self, question: &str) -> String {
        format!("{}\n\nQuestion: {question}\nAnswer:", self.file)
    }

    /// Asks every question of the server at `url`.
    pub(crate) fn run(&self, url: &str, name: &str) -> Result<SessionResult> {
        let bar = report::progress(self.questions.len(), name);
        let mut calls = Vec::with_capacity(self.questions.len());
        for (i, question) in self.questions.iter().enumerate() {
            let call =
                complete(url, self.model.as_deref(), &self.prompt(question), self.max_tokens, None)
                    .with_context(|| format!("ask question {} of {name}", i + 1))?;
            calls.push(call);
            bar.inc(1);
        }
        bar.finish_and_clear();
        SessionResult::new(calls)
            .context("the session had fewer than two questions, or no answer with two tokens")
    }
}

/// Shortens a text to at most so many characters (0: all), to whole lines where there are any. Returns the rest.
pub(crate) fn cut(text: &mut String, characters: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(characters).filter(|_| characters > 0) else {
        return String::new();
    };
    let end = text[..end].rfind('\n').map_or(end, |newline| newline + 1);
    text.split_off(end)
}

impl SessionResult {
    fn new(calls: Vec<Completion>) -> Option<Self> {
        let (first, later) = calls.split_first()?;
        let rates: Vec<f64> = calls.iter().filter_map(Completion::decode_rate).collect();
        let cached: Vec<u64> = calls.iter().filter_map(|c| c.cached_tokens).collect();
        Some(SessionResult {
            first_ttft_seconds: first.ttft_seconds,
            later_ttft_seconds: median(&later.iter().map(|c| c.ttft_seconds).collect::<Vec<_>>())?,
            decode_tokens_per_second: median(&rates)?,
            total_seconds: calls.iter().map(|c| c.total_seconds).sum(),
            prompt_tokens: calls.iter().map(|c| c.prompt_tokens).sum(),
            cached_tokens: (!cached.is_empty()).then(|| cached.iter().sum()),
            calls,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn call(ttft: f64, tokens: u64, seconds: f64, cached: Option<u64>) -> Completion {
        Completion {
            ttft_seconds: ttft,
            answer_seconds: seconds,
            total_seconds: ttft + seconds,
            prompt_tokens: 100,
            answer_tokens: tokens,
            cached_tokens: cached,
            answer: String::new(),
            moments: Vec::new(),
        }
    }

    #[test]
    fn the_first_question_is_kept_apart() {
        let result = SessionResult::new(vec![
            call(10.0, 11, 1.0, Some(0)),
            call(0.3, 11, 0.5, Some(96)),
            call(0.1, 11, 0.5, Some(96)),
            call(0.2, 1, 0.0, Some(96)),
        ])
        .unwrap();
        assert_eq!(result.first_ttft_seconds, 10.0);
        assert_eq!(result.later_ttft_seconds, 0.2);
        assert_eq!(result.decode_tokens_per_second, 20.0);
        assert_eq!(result.cached_tokens, Some(288));
        assert_eq!(result.prompt_tokens, 400);
    }

    #[test]
    fn a_file_is_cut_at_a_line() {
        let mut text = "one\ntwo\nthree\n".to_owned();
        assert_eq!(cut(&mut text, 9), "three\n");
        assert_eq!(text, "one\ntwo\n");
        assert_eq!(cut(&mut text, 0), "");
        assert_eq!(cut(&mut text, 100), "");
        let mut text = "ééé".to_owned();
        assert_eq!(cut(&mut text, 2), "é");
        assert_eq!(text, "éé");
    }

    #[test]
    fn a_server_that_says_nothing_of_its_cache_is_unknown_not_zero() {
        let result =
            SessionResult::new(vec![call(1.0, 3, 1.0, None), call(1.0, 3, 1.0, None)]).unwrap();
        assert_eq!(result.cached_tokens, None);
    }
}
