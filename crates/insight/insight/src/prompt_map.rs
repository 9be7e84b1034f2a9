//! A call's prompt as a strip: what came from the cache, what was computed, what no cache could keep, and where the first
//! difference is. Made of a record's counts alone, which has no text.
//!
//! ```
//! use tapri_insight::prompt_map::{PromptMap, Share};
//! use tapri_ledger::CallRecord;
//!
//! let mut record = CallRecord::new("4f1c", jiff::Timestamp::UNIX_EPOCH);
//! record.tokens.prompt = Some(100);
//! record.tokens.cached = Some(64);
//! let map = PromptMap::of(&record, Some(16)).expect("its prompt was counted");
//! let shares: Vec<_> = map.segments.iter().map(|it| (it.share, it.from, it.tokens)).collect();
//! assert_eq!(shares, [(Share::Hit, 0, 64), (Share::Computed, 64, 32), (Share::Uncacheable, 96, 4)]);
//! ```

use tapri_ledger::{CallRecord, PartKind};

/// What became of some tokens of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Share {
    /// From the cache.
    Hit,
    /// Computed by another call that this one waited for.
    Joined,
    /// Computed for this call.
    Computed,
    /// Behind the last full block that a repeat of the prompt could reuse: always computed.
    Uncacheable,
    /// Nobody said.
    Unknown,
}

/// Neighbouring tokens that fared alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// What became of them.
    pub share: Share,
    /// The first, from 0.
    pub from: u64,
    /// How many.
    pub tokens: u64,
}

/// A part of the prompt on the strip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartSpan {
    /// What it is.
    pub kind: PartKind,
    /// Its path in the request.
    pub path: String,
    /// Its length in characters.
    pub chars: u64,
    /// Its first token, from 0: an estimate, since a record has characters and not tokens of a part.
    pub from: u64,
    /// Its tokens: an estimate as well.
    pub tokens: u64,
}

/// The strip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMap {
    /// All tokens.
    pub prompt: u64,
    /// Tokens of a block, where that is known.
    pub block: Option<u64>,
    /// In order, without gaps, each with at least one token.
    pub segments: Vec<Segment>,
    /// The first token that differs from the nearest earlier prompt, where there is such a place.
    pub difference: Option<u64>,
    /// Whether that place is an estimate.
    pub estimated: bool,
    /// The prompt's parts, in order.
    pub parts: Vec<PartSpan>,
}

impl PromptMap {
    /// Of a call whose prompt was counted, with the blocks of the cache that it looked into, where these are known.
    /// `None` where nothing of its prompt is known, and where a stored answer answered it.
    #[must_use]
    pub fn of(record: &CallRecord, block: Option<u64>) -> Option<Self> {
        let prompt = record.tokens.prompt.filter(|&tokens| tokens > 0)?;
        if record.is_stored_answer() {
            return None;
        }
        let block = block.filter(|&block| block > 0);
        let explanation = record.explanation.as_ref();
        let difference = explanation
            .filter(|it| it.place.is_some())
            .and_then(|it| it.shared_tokens)
            .filter(|&at| at < prompt);
        Some(PromptMap {
            prompt,
            block,
            segments: segments(record, prompt, block),
            difference,
            estimated: explanation.is_some_and(|it| it.estimated),
            parts: parts(record, prompt),
        })
    }
}

fn segments(record: &CallRecord, prompt: u64, block: Option<u64>) -> Vec<Segment> {
    let Some(cached) = record.tokens.cached else {
        return vec![Segment { share: Share::Unknown, from: 0, tokens: prompt }];
    };
    let cached = cached.min(prompt);
    let joined = record.tokens.joined.unwrap_or(0).min(prompt - cached);
    // A lookup covers full blocks, and never the last token, whose scores are needed.
    let reusable = block.map_or(prompt, |block| (prompt - 1) / block * block);
    let computed = reusable.saturating_sub(cached + joined);
    let rest = prompt - cached - joined - computed;
    let mut from = 0;
    let shares = [
        (Share::Hit, cached),
        (Share::Joined, joined),
        (Share::Computed, computed),
        (Share::Uncacheable, rest),
    ];
    let mut segments = Vec::new();
    for (share, tokens) in shares.into_iter().filter(|&(_, tokens)| tokens > 0) {
        segments.push(Segment { share, from, tokens });
        from += tokens;
    }
    segments
}

/// Parts have characters, and a prompt's tokens are spread over them evenly. What a chat template puts between them is
/// spread with them.
fn parts(record: &CallRecord, prompt: u64) -> Vec<PartSpan> {
    let all: u64 = record.parts.iter().map(|part| part.chars).sum();
    if all == 0 {
        return Vec::new();
    }
    let token = |chars: u64| {
        u64::try_from(u128::from(chars) * u128::from(prompt) / u128::from(all)).unwrap_or(prompt)
    };
    let mut before = 0;
    let spans = record.parts.iter().map(|part| {
        let from = token(before);
        before += part.chars;
        PartSpan {
            kind: part.kind,
            path: part.path.clone(),
            chars: part.chars,
            from,
            tokens: token(before) - from,
        }
    });
    spans.collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use tapri_ledger::{CacheOutcome, CacheResult, MissReason, PartPrint, Place};

    use super::*;

    fn record(prompt: Option<u64>, cached: Option<u64>, joined: Option<u64>) -> CallRecord {
        let mut record = CallRecord::new("a", jiff::Timestamp::UNIX_EPOCH);
        record.tokens.prompt = prompt;
        record.tokens.cached = cached;
        record.tokens.joined = joined;
        record
    }

    #[test]
    fn what_is_not_known_is_not_shown() {
        assert_eq!(PromptMap::of(&record(None, None, None), Some(16)), None);
        let unknown = PromptMap::of(&record(Some(50), None, None), Some(16)).unwrap();
        assert_eq!(unknown.segments, [Segment { share: Share::Unknown, from: 0, tokens: 50 }]);
        let mut stored = record(Some(50), None, None);
        stored.exact = Some(CacheResult { outcome: CacheOutcome::Hit, reason: None });
        assert_eq!(PromptMap::of(&stored, Some(16)), None);
        let upstream = PromptMap::of(&record(Some(50), Some(20), None), None).unwrap();
        assert_eq!(upstream.segments.len(), 2, "without blocks nothing is said to be uncacheable");
    }

    #[test]
    fn the_last_block_of_a_repeat_is_computed() {
        let map = PromptMap::of(&record(Some(64), Some(48), None), Some(16)).unwrap();
        let shares: Vec<_> = map.segments.iter().map(|it| (it.share, it.tokens)).collect();
        assert_eq!(shares, [(Share::Hit, 48), (Share::Uncacheable, 16)]);
    }

    #[test]
    fn the_difference_and_the_parts_have_places() {
        let mut record = record(Some(300), Some(96), Some(0));
        let mut explanation = crate::explain::alone(MissReason::Time);
        explanation.shared_tokens = Some(100);
        record.explanation = Some(explanation.clone());
        assert_eq!(PromptMap::of(&record, Some(16)).unwrap().difference, None, "it has no place");
        explanation.place =
            Some(Place { path: "messages[0].content".to_owned(), character: Some(9), page: None });
        record.explanation = Some(explanation);
        let part = |kind, chars| PartPrint { kind, path: "p".to_owned(), chars, print: 1 };
        record.parts = vec![part(PartKind::System, 100), part(PartKind::Message, 200)];
        let map = PromptMap::of(&record, Some(16)).unwrap();
        assert_eq!(map.difference, Some(100));
        let spans: Vec<_> = map.parts.iter().map(|part| (part.from, part.tokens)).collect();
        assert_eq!(spans, [(0, 100), (100, 200)]);
    }

    proptest! {
        #[test]
        fn segments_cover_the_prompt(
            prompt in 1_u64..100_000,
            cached in prop::option::of(0_u64..120_000),
            joined in prop::option::of(0_u64..120_000),
            block in prop::option::of(0_u64..300),
        ) {
            let map = PromptMap::of(&record(Some(prompt), cached, joined), block).unwrap();
            let mut at = 0;
            for segment in &map.segments {
                prop_assert_eq!(segment.from, at);
                prop_assert!(segment.tokens > 0);
                at += segment.tokens;
            }
            prop_assert_eq!(at, prompt);
        }
    }
}
