//! A call as the analysis of starts sees it: when, for whom, and which pieces of text it begins with.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use tapri_ledger::CallRecord;

use crate::prompt::PromptDoc;

/// Bytes of a piece of text, where token ids aren't known: about as many tokens as a block of a ledger's trace.
const PIECE: usize = 512;

/// Bytes of text for a token, where nobody counted. English prose has a little more, code a little less.
const BYTES_A_TOKEN: u64 = 4;

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenCall {
    /// How a reader finds it again: its id, or the line of a log.
    pub name: String,
    /// When it began.
    pub at: Timestamp,
    /// Whose it is.
    pub tenant: String,
    /// The model that was asked.
    pub model: String,
    /// From its beginning to its first token: what it writes can be read from then on. Zero where it isn't known.
    pub ready: Duration,
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens of the answer.
    pub answer: u64,
    /// Whether the prompt's tokens were estimated from the length of its text.
    pub estimated: bool,
    /// The prompt's start, in pieces; each print covers all before it. What is left of the prompt behind them is
    /// taken to be this call's own.
    pub pieces: Vec<Piece>,
    /// The prompt's parts, or its sentences where its text is known, each by itself: a print of its text alone, and
    /// about how many tokens it has.
    pub parts: Vec<(u64, u64)>,
}

/// A piece of a prompt's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Equal where all of the prompt up to this piece's end is.
    pub print: u64,
    /// Its tokens.
    pub tokens: u64,
}

/// Prints that each cover all before them, starting from what parts the caches.
struct Chain(DefaultHasher);

impl Chain {
    fn new(tenant: &str, model: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (tenant, model).hash(&mut hasher);
        Chain(hasher)
    }

    fn next(&mut self, text: impl Hash) -> u64 {
        text.hash(&mut self.0);
        self.0.finish()
    }
}

impl SeenCall {
    /// From a ledger's record; `None` where neither its tokens nor its parts are known, and for calls that no model
    /// answered.
    #[must_use]
    pub fn from_record(record: &CallRecord) -> Option<Self> {
        let chars: u64 = record.parts.iter().map(|part| part.chars).sum();
        let counted = record.tokens.prompt;
        let prompt = counted.unwrap_or(chars / BYTES_A_TOKEN);
        if prompt == 0 {
            return None;
        }
        let mut chain = Chain::new(&record.tenant, &record.model);
        let block = CallRecord::TRACE_BLOCK as u64;
        let parts: Vec<_> = record
            .parts
            .iter()
            .map(|part| (part.print, share(prompt, part.chars, chars)))
            .collect();
        let pieces = if record.trace.is_empty() {
            let pieces = record.parts.iter().zip(&parts);
            pieces
                .map(|(part, (_, tokens))| Piece { print: chain.next(part.print), tokens: *tokens })
                .collect()
        } else {
            let whole =
                record.trace.iter().take(usize::try_from(prompt / block).unwrap_or(usize::MAX));
            whole.map(|print| Piece { print: chain.next(print), tokens: block }).collect()
        };
        Some(SeenCall {
            name: record.id.clone(),
            at: record.at,
            tenant: record.tenant.clone(),
            model: record.model.clone(),
            ready: record.ttft.unwrap_or_default(),
            prompt,
            answer: record.tokens.answer.unwrap_or(0),
            estimated: counted.is_none() || record.trace.is_empty(),
            pieces,
            parts,
        })
    }

    /// From a request of a log; `None` where it has no text. A request without a time is refused by the caller.
    #[must_use]
    pub fn from_prompt(doc: &PromptDoc, name: String, at: Timestamp) -> Option<Self> {
        let tenant = doc
            .partitions
            .iter()
            .find(|partition| partition.kind == crate::prompt::PartitionKind::Tenant)
            .map_or("default", |partition| partition.value.as_str());
        let model = doc.model.as_deref().unwrap_or("");
        let mut chain = Chain::new(tenant, model);
        for partition in &doc.partitions {
            chain.next(&partition.value);
        }
        let text = doc.canonical().text;
        let bytes = text.len() as u64;
        let counted = doc.usage.and_then(|usage| usage.prompt);
        let prompt = counted.unwrap_or(bytes / BYTES_A_TOKEN);
        if prompt == 0 {
            return None;
        }
        // Only whole pieces: what grows later differs in the last one.
        let pieces = text.as_bytes().chunks_exact(PIECE).map(|piece| Piece {
            print: chain.next(piece),
            tokens: share(prompt, PIECE as u64, bytes),
        });
        let pieces = pieces.collect();
        let sentences = doc.parts.iter().flat_map(|part| sentences(&part.text)).map(|sentence| {
            let mut hasher = DefaultHasher::new();
            sentence.hash(&mut hasher);
            (hasher.finish(), share(prompt, sentence.len() as u64, bytes))
        });
        Some(SeenCall {
            name,
            at,
            tenant: tenant.to_owned(),
            model: model.to_owned(),
            ready: Duration::ZERO,
            prompt,
            answer: doc.usage.and_then(|usage| usage.answer).unwrap_or(0),
            // Pieces are cut by bytes, so their tokens are shares even where the whole was counted.
            estimated: true,
            parts: sentences.collect(),
            pieces,
        })
    }
}

/// Lines, and the sentences of long ones: what stays whole when something in front of it changes.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').flat_map(|line| line.split_inclusive(". "))
}

/// `part` of `whole`, of so many tokens, rounded down.
fn share(tokens: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(tokens) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use tapri_ledger::{PartKind, PartPrint};

    use super::*;

    #[test]
    fn a_record_by_its_trace_and_by_its_parts() {
        let mut record = CallRecord::new("a", Timestamp::UNIX_EPOCH);
        assert_eq!(SeenCall::from_record(&record), None);
        let part =
            |print, chars| PartPrint { kind: PartKind::Message, path: String::new(), chars, print };
        record.parts = vec![part(7, 3_000), part(8, 1_000)];
        record.tokens.prompt = Some(300);
        let seen = SeenCall::from_record(&record).unwrap();
        assert!(seen.estimated);
        assert_eq!(seen.pieces.iter().map(|piece| piece.tokens).collect::<Vec<_>>(), [225, 75]);
        record.trace = vec![1, 2];
        let seen = SeenCall::from_record(&record).unwrap();
        assert!(!seen.estimated);
        assert_eq!(seen.pieces.iter().map(|piece| piece.tokens).collect::<Vec<_>>(), [128, 128]);
        // Another tenant's same text is another start.
        let own = seen.pieces[0].print;
        record.tenant = "other".into();
        assert_ne!(SeenCall::from_record(&record).unwrap().pieces[0].print, own);
    }

    #[test]
    fn a_request_in_pieces() {
        let of = |text: &str| {
            let body =
                serde_json::json!({"model": "m", "messages": [{"role": "user", "content": text}]});
            let doc = PromptDoc::from_value(&body).unwrap();
            SeenCall::from_prompt(&doc, "line 1".into(), Timestamp::UNIX_EPOCH).unwrap()
        };
        let (short, long) = (of(&"tea ".repeat(400)), of(&"tea ".repeat(800)));
        assert_eq!(short.pieces.len(), 3);
        assert_eq!(short.pieces[..], long.pieces[..3]);
        assert_ne!(of(&"chai ".repeat(400)).pieces[0], short.pieces[0]);
    }
}
