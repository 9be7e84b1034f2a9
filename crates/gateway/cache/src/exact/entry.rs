//! A stored answer, and its form in stores.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tapri_api::{CallEvent, Finish, Piece, Timings, Token};

use super::Key;

/// The version of the form. An entry of another one is a miss: raised whenever an event of [`tapri_api`] is written
/// down in another way, which a test of this crate notices.
pub const FORM: u32 = 1;

/// What an entry's form begins with: the version, the length and a digest of the rest follow.
const MAGIC: &[u8; 4] = b"tpx\x01";

/// How far the clocks of machines that share a store may differ, and how far one clock may go back before what is
/// stored looks as if it came from the future.
const SKEW: Duration = Duration::from_secs(60);

/// What belongs to what, for erasure.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Tags {
    /// The tenant's name.
    pub tenant: String,
    /// The route's name.
    pub route: String,
    /// The model that answered.
    pub model: String,
    /// The document the call was about.
    pub document: Option<String>,
    /// Sessions that got this answer, the first one first.
    pub sessions: Vec<String>,
}

/// An answer as it came: its events, when, and whose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it belongs to.
    pub tags: Tags,
    /// When it was given, in milliseconds since 1970.
    created: u64,
    /// Until when it may be served, in milliseconds since 1970.
    expires: Option<u64>,
    /// Its pieces and tokens, in order.
    events: Vec<Event>,
    /// How it ended.
    finish: Finish,
}

/// An event that is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    Token(Token),
    Piece(Piece),
}

/// Why bytes are no entry. A miss, whichever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// They begin with something else.
    #[error("it is no stored answer")]
    Other,
    /// Another version wrote them.
    #[error("it has form {0}, and this version reads form {FORM}")]
    Form(u32),
    /// They were changed.
    #[error("its digest is wrong")]
    Digest,
    /// They don't say what an entry says.
    #[error("it can't be read")]
    Content,
}

impl Entry {
    /// From the events of a call that ended. What isn't said to the client (admission, progress) is left out.
    pub(crate) fn new(
        tags: Tags,
        events: &[CallEvent],
        finish: Finish,
        now: SystemTime,
        ttl: Option<Duration>,
    ) -> Self {
        let events = events.iter().filter_map(|event| match event {
            CallEvent::Token(token) => Some(Event::Token(token.clone())),
            CallEvent::Piece(piece) => Some(Event::Piece(piece.clone())),
            _ => None,
        });
        let created = millis(now);
        Entry {
            tags,
            created,
            expires: ttl.map(|ttl| created.saturating_add(ttl.as_millis() as u64)),
            events: events.collect(),
            finish,
        }
    }

    /// From the events of a call that ended well; `None` where they say nothing of an end. Given at the beginning of
    /// 1970 and served for ever: for tools and tests.
    pub fn of(tags: Tags, events: &[CallEvent]) -> Option<Self> {
        let CallEvent::Finished(finish) = events.last()? else { return None };
        Some(Entry::new(tags, events, finish.clone(), UNIX_EPOCH, None))
    }

    /// The events of the answer, given again. Its counts are those of the first time; its times are this call's, and
    /// there was nothing to wait for.
    pub(crate) fn replay(&self, elapsed: Duration) -> impl Iterator<Item = CallEvent> + '_ {
        let events = self.events.iter().map(|event| match event {
            Event::Token(token) => CallEvent::Token(token.clone()),
            Event::Piece(piece) => CallEvent::Piece(piece.clone()),
        });
        let timings = Timings { first_token: Some(elapsed), total: elapsed, ..Timings::default() };
        let finish = Finish { timings, ..self.finish.clone() };
        events.chain(std::iter::once(CallEvent::Finished(finish)))
    }

    /// Events that [`Entry::replay`] gives.
    pub(crate) fn len(&self) -> usize {
        self.events.len() + 1
    }

    /// Since when it is there; nothing where clocks differ by a little.
    pub fn age(&self, now: SystemTime) -> Duration {
        Duration::from_millis(millis(now).saturating_sub(self.created))
    }

    /// How long it may still be served; `Some(None)` is for ever, `None` is no longer.
    ///
    /// An entry from the future was stored before the clock went back: nobody knows its age, so it is stale.
    pub fn freshness(&self, now: SystemTime) -> Option<Option<Duration>> {
        let now = millis(now);
        if self.created > now.saturating_add(SKEW.as_millis() as u64) {
            return None;
        }
        match self.expires {
            None => Some(None),
            Some(expires) if expires > now => Some(Some(Duration::from_millis(expires - now))),
            Some(_) => None,
        }
    }

    /// When it was given, in milliseconds since 1970.
    pub fn created_millis(&self) -> u64 {
        self.created
    }

    /// Until when it may be served, in milliseconds since 1970.
    pub fn expires_millis(&self) -> Option<u64> {
        self.expires
    }

    /// Its form in stores. The digest is keyed by the entry's key, so that an answer under another name than its own
    /// is no answer.
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        // Of maps with names for keys and finite numbers, so that it can't fail.
        let content = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = Vec::with_capacity(content.len() + 40);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORM.to_le_bytes());
        bytes.extend_from_slice(blake3::keyed_hash(key.as_bytes(), &content).as_bytes());
        bytes.extend_from_slice(&content);
        bytes
    }

    /// Reads the form.
    pub fn decode(key: &Key, bytes: &[u8]) -> Result<Self, DecodeError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(DecodeError::Other)?;
        let (form, rest) = rest.split_first_chunk::<4>().ok_or(DecodeError::Other)?;
        let form = u32::from_le_bytes(*form);
        if form != FORM {
            return Err(DecodeError::Form(form));
        }
        let (digest, content) = rest.split_first_chunk::<32>().ok_or(DecodeError::Digest)?;
        if blake3::keyed_hash(key.as_bytes(), content) != *digest {
            return Err(DecodeError::Digest);
        }
        serde_json::from_slice(content).map_err(|_| DecodeError::Content)
    }
}

/// Milliseconds since 1970; 0 for a clock that stands before it.
pub(crate) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Bytes of an event, roughly: what it holds of text, and a little for itself.
pub(crate) fn weight(event: &CallEvent) -> usize {
    use tapri_api::Says;
    let token = |token: &Token| {
        let logprobs = token.logprobs.as_ref();
        48 + token.text.len()
            + logprobs.map_or(0, |l| {
                40 + l.chosen.bytes.len() + l.top.iter().map(|l| 40 + l.bytes.len()).sum::<usize>()
            })
    };
    match event {
        CallEvent::Token(it) => token(it),
        CallEvent::Piece(piece) => {
            let raw = piece.raw.as_ref().map_or(0, |raw| 48 + raw.data.len());
            let deltas = piece.deltas.iter().map(|delta| match &delta.says {
                Says::Text(text)
                | Says::Thinking(text)
                | Says::ThinkingSignature(text)
                | Says::RedactedThinking(text)
                | Says::Refusal(text) => 48 + text.len(),
                Says::ToolArguments { json, .. } => 48 + json.len(),
                Says::ToolCall { id, name, .. } => 48 + id.len() + name.len(),
                Says::Token(it) => token(it),
                Says::Echo { tokens, .. } => 48 + tokens.iter().map(token).sum::<usize>(),
                Says::PromptLogprobs(entries) => {
                    48 + entries.iter().map(|entry| entry.to_string().len()).sum::<usize>()
                }
                Says::Logprobs(value) | Says::Other { value, .. } => 48 + value.to_string().len(),
                _ => 48,
            });
            48 + raw + deltas.sum::<usize>()
        }
        _ => 48,
    }
}
