//! Block traces as they are published: Mooncake's lines, recorded sessions of coding agents, Tapri's own ledger.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::trace::{Scope, Trace, TraceError};
use crate::ledger::CallRecord;
use crate::lines::{Broken, Lines};

/// Tokens of a block in Mooncake's traces, whose lines don't say (its README does).
const MOONCAKE_BLOCK: u32 = 512;

/// Tokens of a block of a session that doesn't say.
const SESSION_BLOCK: u32 = 64;

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// A call a line: `timestamp` (milliseconds), `input_length`, `hash_ids` (the Mooncake trace release, FAST'25).
    Mooncake,
    /// A session a file or a line: `requests`, each with `t` (seconds), `in`, `hash_ids`; nested ones are sub-agents, which
    /// share the session's ids (Claude Code sessions of kv-cache-tester).
    Session,
    /// A [`CallRecord`] a line.
    Ledger,
}

impl Format {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Mooncake => "mooncake",
            Format::Session => "session",
            Format::Ledger => "ledger",
        }
    }
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The input failed.
    #[error("could not be read")]
    Io(#[from] io::Error),
    /// The document is no session.
    #[error("is no recorded session")]
    Session(#[from] serde_json::Error),
    /// There is no call in it.
    #[error("has no call that can be replayed")]
    Nothing,
}

/// Gathers a trace from one or several files.
#[derive(Debug, Clone)]
pub struct Reader {
    block_tokens: Option<NonZeroU32>,
    stagger: Duration,
    trace: Option<Trace>,
    scopes: HashMap<(String, String), Scope>,
    next_scope: u32,
    sessions: u32,
    format: Option<Format>,
    ids: Vec<u64>,
    without_blocks: u64,
}

impl Reader {
    /// `block_tokens` is for traces that don't say it themselves. Recorded sessions all begin at their own zero: each one
    /// is let begin `stagger` after the one before.
    #[must_use]
    pub fn new(block_tokens: Option<NonZeroU32>, stagger: Duration) -> Self {
        Reader {
            block_tokens,
            stagger,
            trace: None,
            scopes: HashMap::new(),
            // 0 is for ids that are known everywhere.
            next_scope: 1,
            sessions: 0,
            format: None,
            ids: Vec::new(),
            without_blocks: 0,
        }
    }

    /// Reads a file of lines. What can't be used is counted in [`Lines::broken`].
    ///
    /// # Errors
    /// When the input fails.
    pub fn read_lines<R: BufRead>(&mut self, lines: &mut Lines<R>) -> Result<(), ReadError> {
        while let Some(line) = lines.next_json::<Line>()? {
            let number = lines.number();
            let mut broken = std::mem::take(&mut lines.broken);
            self.line(line, number, &mut broken);
            lines.broken = broken;
        }
        Ok(())
    }

    /// Reads a file that is one session. Requests that can't be used are counted.
    ///
    /// # Errors
    /// When the input fails or is something else.
    pub fn read_session(&mut self, reader: impl BufRead) -> Result<Broken, ReadError> {
        let session: Session = serde_json::from_reader(reader)?;
        let mut broken = Broken::default();
        self.session(session, 1, &mut broken);
        Ok(broken)
    }

    /// Adds a call of the ledger. `false` where it can't be replayed: its tokens weren't known.
    ///
    /// # Errors
    /// When the record contradicts itself.
    pub fn record(&mut self, record: &CallRecord) -> Result<bool, TraceError> {
        let Some(tokens) = record.tokens.prompt.filter(|_| can_replay(record)) else {
            self.without_blocks += 1;
            return Ok(false);
        };
        let scope = self.scope_of(&record.tenant, &record.model);
        self.ids.clone_from(&record.trace);
        self.push(
            Format::Ledger,
            CallRecord::TRACE_BLOCK as u32,
            scope,
            since_epoch(record.at),
            tokens,
        )?;
        Ok(true)
    }

    /// The format of what was read last.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// Calls of a ledger whose tokens weren't known, and which were left out.
    #[must_use]
    pub fn without_blocks(&self) -> u64 {
        self.without_blocks
    }

    /// The trace, sealed.
    ///
    /// # Errors
    /// When there is no call in it.
    pub fn finish(self) -> Result<Trace, ReadError> {
        let mut trace = self.trace.ok_or(ReadError::Nothing)?;
        trace.seal();
        if trace.calls().is_empty() { Err(ReadError::Nothing) } else { Ok(trace) }
    }

    fn line(&mut self, line: Line, number: u64, broken: &mut Broken) {
        let result = match line {
            Line { requests: Some(requests), block_size, hash_id_scope, .. } => {
                self.session(Session { block_size, hash_id_scope, requests }, number, broken);
                return;
            }
            Line { hash_ids: Some(ids), input_length: Some(tokens), timestamp, .. } => {
                let at = millis(timestamp.unwrap_or(0.0));
                self.ids = ids;
                let block = self.block_tokens.map_or(MOONCAKE_BLOCK, NonZeroU32::get);
                self.push(Format::Mooncake, block, Scope(0), at, tokens)
            }
            Line {
                trace: Some(trace), at: Some(at), tokens: Some(tokens), tenant, model, ..
            } => {
                let Some(tokens) = tokens.prompt else {
                    self.without_blocks += 1;
                    return;
                };
                if trace.is_empty() && tokens >= CallRecord::TRACE_BLOCK as u64 {
                    self.without_blocks += 1;
                    return;
                }
                let scope = self.scope_of(&tenant.unwrap_or_default(), &model.unwrap_or_default());
                self.ids = trace.into_iter().map(|print| print.0).collect();
                self.push(
                    Format::Ledger,
                    CallRecord::TRACE_BLOCK as u32,
                    scope,
                    since_epoch(at),
                    tokens,
                )
            }
            _ => {
                broken.add(number, "neither a call (hash_ids and input_length), nor a session (requests), nor a record of a ledger (trace)");
                return;
            }
        };
        if let Err(error) = result {
            broken.add(number, self.with_hint(&error));
        }
    }

    fn session(&mut self, session: Session, line: u64, broken: &mut Broken) {
        let block = session.block_size.or(self.block_tokens).map_or(SESSION_BLOCK, NonZeroU32::get);
        let scope = if session.hash_id_scope.as_deref() == Some("global") {
            Scope(0)
        } else {
            self.new_scope()
        };
        let start = self.stagger * self.sessions;
        self.sessions += 1;
        let mut number = 0;
        self.requests(session.requests, block, scope, start, &mut number, line, broken);
    }

    /// Requests of a session, those of its sub-agents among them; times count from the session's start.
    fn requests(
        &mut self,
        requests: Vec<Request>,
        block: u32,
        scope: Scope,
        start: Duration,
        number: &mut u64,
        line: u64,
        broken: &mut Broken,
    ) {
        for request in requests {
            if let Some(nested) = request.requests {
                self.requests(nested, block, scope, start, number, line, broken);
                continue;
            }
            *number += 1;
            let (Some(ids), Some(tokens)) = (request.hash_ids, request.tokens) else {
                broken.add(line, format!("request {number}: without hash_ids or in"));
                continue;
            };
            self.ids = ids;
            let at = start + millis(request.t.unwrap_or(0.0) * 1000.0);
            if let Err(error) = self.push(Format::Session, block, scope, at, tokens) {
                broken.add(line, format!("request {number}: {}", self.with_hint(&error)));
            }
        }
    }

    fn push(
        &mut self,
        format: Format,
        block: u32,
        scope: Scope,
        at: Duration,
        tokens: u64,
    ) -> Result<(), TraceError> {
        let size = NonZeroU32::new(block).unwrap_or(NonZeroU32::MIN);
        let trace = self.trace.get_or_insert_with(|| Trace::new(size));
        if trace.block_tokens() != u64::from(block) {
            return Err(TraceError::Mixed { block_tokens: block, others: trace.block_tokens() });
        }
        trace.push(scope, at, tokens, &self.ids)?;
        self.format = Some(format);
        Ok(())
    }

    fn with_hint(&self, error: &TraceError) -> String {
        match error {
            TraceError::Blocks { .. } if self.block_tokens.is_none() => {
                format!("{error}; is it another block size?")
            }
            _ => error.to_string(),
        }
    }

    fn new_scope(&mut self) -> Scope {
        let scope = Scope(self.next_scope);
        self.next_scope += 1;
        scope
    }

    /// Tenants share nothing, nor do models.
    fn scope_of(&mut self, tenant: &str, model: &str) -> Scope {
        let key = (tenant.to_owned(), model.to_owned());
        if let Some(scope) = self.scopes.get(&key) {
            return *scope;
        }
        let scope = self.new_scope();
        self.scopes.insert(key, scope);
        scope
    }
}

/// Whether a record's blocks are known: a prompt below one block has none.
fn can_replay(record: &CallRecord) -> bool {
    let tokens = record.tokens.prompt.unwrap_or(0);
    !record.trace.is_empty() || tokens < CallRecord::TRACE_BLOCK as u64
}

fn millis(millis: f64) -> Duration {
    Duration::try_from_secs_f64(millis / 1000.0).unwrap_or_default()
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::try_from(at.as_duration()).unwrap_or_default()
}

#[derive(Deserialize)]
struct Line {
    timestamp: Option<f64>,
    input_length: Option<u64>,
    hash_ids: Option<Vec<u64>>,
    block_size: Option<NonZeroU32>,
    hash_id_scope: Option<String>,
    requests: Option<Vec<Request>>,
    at: Option<Timestamp>,
    tenant: Option<String>,
    model: Option<String>,
    tokens: Option<Tokens>,
    trace: Option<Vec<Fingerprint>>,
}

/// A fingerprint, as a ledger writes it: hexadecimal digits.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Fingerprint(u64);

impl TryFrom<String> for Fingerprint {
    type Error = std::num::ParseIntError;

    fn try_from(digits: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&digits, 16).map(Fingerprint)
    }
}

#[derive(Deserialize)]
struct Tokens {
    prompt: Option<u64>,
}

#[derive(Deserialize)]
struct Session {
    block_size: Option<NonZeroU32>,
    hash_id_scope: Option<String>,
    requests: Vec<Request>,
}

#[derive(Deserialize)]
struct Request {
    t: Option<f64>,
    #[serde(rename = "in")]
    tokens: Option<u64>,
    hash_ids: Option<Vec<u64>>,
    requests: Option<Vec<Request>>,
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::simulate::{Counting, Curve};

    fn lines(text: &str) -> (Reader, Broken) {
        let mut reader = Reader::new(None, Duration::ZERO);
        let mut lines = Lines::new(text.as_bytes());
        reader.read_lines(&mut lines).unwrap();
        (reader, lines.broken)
    }

    fn endless(reader: Reader) -> u64 {
        Curve::new(&reader.finish().unwrap(), Counting::Listed, |_| {}).endless().blocks
    }

    /// As kv-cache-tester nests them: a sub-agent's requests know the blocks of its parent.
    const SESSION: &str = r#"{"id": "trace_1", "block_size": 64, "hash_id_scope": "local", "tool_tokens": 12439, "requests": [
        {"t": 0.0, "type": "n", "model": "m", "in": 200, "out": 9, "hash_ids": [1, 2, 3], "api_time": 7.65, "think_time": 0.0},
        {"t": 9.5, "type": "subagent", "agent_id": "a", "subagent_type": "Explore", "status": "completed", "requests": [
            {"t": 10.0, "type": "s", "model": "m", "in": 130, "out": 9, "hash_ids": [1, 4]},
            {"t": 30.0, "type": "s", "model": "m", "in": 192, "out": 9, "hash_ids": [1, 4, 5]}]},
        {"t": 20.0, "type": "n", "model": "m", "in": 256, "out": 9, "hash_ids": [1, 2, 3, 6]},
        {"t": 21.0, "type": "n", "model": "m", "in": 256, "hash_ids": [1]},
        {"t": 22.0, "type": "n", "model": "m"}]}"#;

    #[test]
    fn sub_agents_share_the_ids_of_their_session_and_sessions_share_none() {
        let mut reader = Reader::new(None, Duration::from_secs(3600));
        let broken = reader.read_session(SESSION.as_bytes()).unwrap();
        assert_eq!(broken.count, 2);
        assert_eq!(
            broken.first[0].1,
            "request 5: 256 tokens are no 1 blocks of 64; is it another block size?"
        );
        assert_eq!(broken.first[1].1, "request 6: without hash_ids or in");
        reader.read_session(SESSION.as_bytes()).unwrap();
        assert_eq!(reader.format(), Some(Format::Session));
        let trace = reader.clone().finish().unwrap();
        let at: Vec<u64> = trace.calls().iter().map(|call| call.at.as_secs()).collect();
        // By time, those of the sub-agent between the others; the second session begins an hour later.
        assert_eq!(at, [0, 10, 20, 30, 3600, 3610, 3620, 3630]);
        assert_eq!(trace.distinct(), 12);
        assert_eq!(endless(reader), 2 * (1 + 3 + 2));
    }

    #[test]
    fn a_session_a_line_and_ids_that_are_known_everywhere() {
        let line = SESSION.replace('\n', " ");
        let (reader, broken) = lines(&format!("{line}\n{line}\n"));
        assert_eq!((broken.count, broken.first[2].0), (4, 2));
        assert_eq!(endless(reader), 2 * 6);
        let global = line.replace("local", "global");
        // The second finds all that the first left.
        assert_eq!(endless(lines(&format!("{global}\n{global}\n")).0), 6 + (3 + 2 + 4 + 3));
    }

    #[test]
    fn mooncake_lines_in_any_order() {
        let (reader, broken) = lines(
            "{\"timestamp\": 9000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [7, 8]}\n\
             {\"timestamp\": 3000, \"input_length\": 512, \"hash_ids\": [7]}\n\
             {\"timestamp\": 3000, \"input_length\": 0, \"hash_ids\": []}\n{\"requests\": 5}\n{}\n",
        );
        assert_eq!(broken.count, 3);
        let trace = reader.clone().finish().unwrap();
        assert_eq!(trace.calls().iter().map(|call| call.tokens).collect::<Vec<_>>(), [512, 600]);
        assert_eq!(
            (trace.span(), reader.format()),
            (Duration::from_secs(6), Some(Format::Mooncake))
        );
        assert_eq!(endless(reader), 1);
    }

    #[test]
    fn records_share_within_tenant_and_model_alone() {
        let record = |tenant: &str, model: &str, tokens: Option<u64>, trace: &[u64]| {
            let mut record = CallRecord::new("id", "2026-11-30T10:00:00Z".parse().unwrap());
            (record.tenant, record.model) = (tenant.to_owned(), model.to_owned());
            (record.tokens.prompt, record.trace) = (tokens, trace.to_vec());
            record
        };
        let records = [
            record("a", "m", Some(300), &[1, 2]),
            record("a", "m", Some(400), &[1, 2, 3]),
            record("b", "m", Some(400), &[1, 2, 3]),
            record("a", "n", Some(400), &[1, 2, 3]),
            // Of these nothing, or nothing but a few tokens, is known.
            record("a", "m", None, &[]),
            record("a", "m", Some(400), &[]),
            record("a", "m", Some(40), &[]),
        ];
        let mut reader = Reader::new(None, Duration::ZERO);
        let taken: Vec<bool> =
            records.iter().map(|record| reader.record(record).unwrap()).collect();
        assert_eq!(taken, [true, true, true, true, false, false, true]);
        assert_eq!((reader.without_blocks(), reader.format()), (2, Some(Format::Ledger)));
        assert_eq!(endless(reader), 2);
        // The same from lines of records.
        let text: Vec<String> =
            records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
        let (reader, broken) = lines(&text.join("\n"));
        assert_eq!((broken.count, reader.without_blocks()), (0, 2));
        assert_eq!(endless(reader), 2);
    }

    #[test]
    fn block_sizes_are_not_mixed() {
        let (mut reader, _) = lines("{\"input_length\": 512, \"hash_ids\": [7]}\n");
        let broken = reader.read_session(SESSION.as_bytes()).unwrap();
        assert_eq!(broken.first[0].1, "request 1: blocks of 64 tokens among blocks of 512");
        assert!(matches!(Reader::new(None, Duration::ZERO).finish(), Err(ReadError::Nothing)));
    }
}
