//! One server's turn.

use std::sync::Barrier;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use super::{slots, watch};
use crate::client::{Completion, complete};
use crate::session::Session;
use crate::statistics::{Spread, median};

/// How many questions tell what one user alone gets.
const ALONE: usize = 3;

/// Characters of a prompt that is only to be there: about 300 tokens.
const RESIDENT_CHARACTERS: usize = 1_000;

/// Who asks what.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    pub(crate) session: Session,
    pub(crate) users: usize,
    pub(crate) resident: usize,
    /// Text that nobody asks about, for the other prompts.
    pub(crate) rest: String,
}

/// What a turn took.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Turn {
    /// Seconds from the first request to the last token of all.
    pub(crate) total_seconds: f64,
    /// Of these, seconds for setting the server up by hand.
    pub(crate) by_hand_seconds: f64,
    /// Seconds from asking to the first token, of each user.
    pub(crate) ttft_seconds: Spread,
    /// Prompt tokens of all users.
    pub(crate) prompt_tokens: u64,
    /// Of these, how many the server says it reused.
    pub(crate) cached_tokens: Option<u64>,
    /// Answer tokens of all users in a second, from the first to the last token of all.
    pub(crate) answer_tokens_per_second: f64,
    /// The same while every user's answer was being written; absent when there was no such time.
    pub(crate) together_tokens_per_second: Option<f64>,
    /// The most KV memory in use; absent where the server does not say.
    pub(crate) kv_bytes: Option<u64>,
    /// One user, with the file at hand.
    pub(crate) alone: Alone,
    /// The same after the other prompts.
    pub(crate) among_residents: Option<Alone>,
}

/// What one user alone gets.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Alone {
    /// Median answer tokens a second.
    pub(crate) tokens_per_second: Option<f64>,
    /// The most KV memory in use.
    pub(crate) kv_bytes: Option<u64>,
}

impl Crowd {
    pub(crate) fn turn(&self, url: &str, by_hand: bool) -> Result<Turn> {
        let begun = Instant::now();
        if by_hand {
            slots::fill(url, &self.session.file, self.users)?;
        }
        let by_hand_seconds = if by_hand { begun.elapsed().as_secs_f64() } else { 0.0 };
        let (calls, kv_bytes) = watch::peak(url, || self.at_once(url, by_hand));
        let total_seconds = begun.elapsed().as_secs_f64();
        let calls = calls?;
        // By hand, someone has to say which slot holds the file.
        let slot = by_hand.then_some(0);
        let alone = self.alone(url, slot)?;
        let among_residents = if self.resident > 0 {
            for number in 0..self.resident {
                complete(url, self.session.model.as_deref(), &self.other(number), 1, None)
                    .with_context(|| format!("ask other prompt {number}"))?;
            }
            // Whatever the other prompts pushed out is read again first.
            self.ask(url, 0, slot)?;
            Some(self.alone(url, slot)?)
        } else {
            None
        };
        let answer_tokens: u64 = calls.iter().map(|c| c.answer_tokens).sum();
        let cached: Vec<u64> = calls.iter().filter_map(|c| c.cached_tokens).collect();
        let ttfts: Vec<f64> = calls.iter().map(|c| c.ttft_seconds).collect();
        Ok(Turn {
            total_seconds,
            by_hand_seconds,
            ttft_seconds: Spread::of(&ttfts).context("nobody asked")?,
            prompt_tokens: calls.iter().map(|c| c.prompt_tokens).sum(),
            cached_tokens: (!cached.is_empty()).then(|| cached.iter().sum()),
            answer_tokens_per_second: answer_tokens as f64 / span(&calls).unwrap_or(total_seconds),
            together_tokens_per_second: together(&calls),
            kv_bytes,
            alone,
            among_residents,
        })
    }

    /// All users ask at once.
    fn at_once(&self, url: &str, by_hand: bool) -> Result<Vec<Completion>> {
        let ready = Barrier::new(self.users);
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..self.users)
                .map(|user| {
                    let ready = &ready;
                    scope.spawn(move || {
                        ready.wait();
                        self.ask(url, user, by_hand.then_some(user))
                    })
                })
                .collect();
            users
                .into_iter()
                .map(|user| user.join().map_err(|_| anyhow!("a user's thread failed"))?)
                .collect()
        })
    }

    /// A few questions that nobody asked yet, as far as there are any, one after another.
    fn alone(&self, url: &str, slot: Option<usize>) -> Result<Alone> {
        let (rates, kv_bytes) = watch::peak(url, || {
            let ask = |i| Ok(self.ask(url, self.users + i, slot)?.decode_rate());
            (0..ALONE).map(ask).collect::<Result<Vec<_>>>()
        });
        let rates: Vec<f64> = rates?.into_iter().flatten().collect();
        Ok(Alone { tokens_per_second: median(&rates), kv_bytes })
    }

    fn ask(&self, url: &str, number: usize, slot: Option<usize>) -> Result<Completion> {
        let session = &self.session;
        let prompt = session.prompt(&session.questions[number % session.questions.len()]);
        complete(url, session.model.as_deref(), &prompt, session.max_tokens, slot)
            .with_context(|| format!("ask question {}", number + 1))
    }

    /// A prompt that is not about the file: no two begin alike.
    fn other(&self, number: usize) -> String {
        let text: Vec<char> = self.rest.chars().collect();
        let from = number * RESIDENT_CHARACTERS % text.len().max(1);
        let part: String = text.iter().cycle().skip(from).take(RESIDENT_CHARACTERS).collect();
        format!("{number}. Another matter.\n\n{part}")
    }
}

/// Seconds from the first token of all to the last.
fn span(calls: &[Completion]) -> Option<f64> {
    let first = calls.iter().filter_map(|c| c.moments.first()).min()?;
    let last = calls.iter().filter_map(|c| c.moments.last()).max()?;
    Some((*last - *first).as_secs_f64()).filter(|seconds| *seconds > 0.0)
}

/// Tokens a second from the moment when the last user's answer begins to the moment when the first user's ends.
pub(super) fn together(calls: &[Completion]) -> Option<f64> {
    let from =
        *calls.iter().map(|c| c.moments.first()).collect::<Option<Vec<_>>>()?.into_iter().max()?;
    let to =
        *calls.iter().map(|c| c.moments.last()).collect::<Option<Vec<_>>>()?.into_iter().min()?;
    if to <= from {
        return None;
    }
    let tokens: f64 = calls
        .iter()
        .map(|call| {
            let events = call.moments.iter().filter(|at| **at > from && **at <= to).count();
            // An event may carry several tokens.
            events as f64 * call.answer_tokens as f64 / call.moments.len() as f64
        })
        .sum();
    Some(tokens / (to - from).as_secs_f64())
}
