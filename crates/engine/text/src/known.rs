//! Texts that were tokenised lately: one that begins like an earlier one is tokenised only from where they part.
//!
//! Beside each text stand its tokens and some of its *seams*: places at which the tokens before depend on nothing but
//! the text up to there and `reach` bytes more, and the tokens behind on nothing but the text from there on. So the
//! tokens before the last seam that lies `reach` bytes before the first difference are taken as they are, and the rest
//! is tokenised from the seam on, with the same result as tokenising it all. What makes a place a seam is said where
//! seams are found: in `special` (the end of a token that is found as it is), `spm` and `bpe`.
//!
//! A cache of texts tells by its time what is in it, as any cache does: a text is known only to the scope that brought it,
//! and a scope that brings much loses its own texts first.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tapri_gguf::TokenId;

use crate::{Rendered, Special, Tokenizer};

/// Shorter texts cost less to tokenise (some 20 µs) than to keep.
const LEAST: usize = 2048;

/// A text that goes on from a known one by less, and by less than a quarter of its own, is not kept beside it.
const WORTH: usize = 4096;

/// A known text of which no more than this would be lost, nor more than a quarter, makes room for one that goes on from it: the next question about a
/// document, the next turn of a conversation.
const LOSS: usize = 16 * 1024;

/// Texts of one scope: each is compared with at each lookup.
const PER_SCOPE: usize = 256;

/// What a caller says of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextUse<'a> {
    /// Whose text it is: texts of other scopes are never looked at.
    pub scope: &'a [u8],
    /// A part of the scope; those of other parts aren't looked at either. May be empty.
    pub salt: &'a [u8],
    /// Whether what is known may be used.
    pub read: bool,
    /// Whether anything of the text may be left behind.
    pub store: bool,
}

impl TextUse<'_> {
    /// Scope and salt as one; no two pairs have the same.
    fn key(&self) -> Vec<u8> {
        let mut key = scope_key(self.scope);
        key.extend_from_slice(self.salt);
        key
    }
}

/// What the keys of all parts of a scope begin with, and no other's.
fn scope_key(scope: &[u8]) -> Vec<u8> {
    let mut key = (scope.len() as u64).to_le_bytes().to_vec();
    key.extend_from_slice(scope);
    key
}

/// A place where tokenising can begin anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seam {
    /// Bytes of text before it.
    pub(crate) at: usize,
    /// Tokens before it.
    pub(crate) tokens: usize,
    /// Whether it follows a token that was found as it is.
    pub(crate) after_token: bool,
}

/// A text and its tokens, without BOS.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) tokens: Vec<TokenId>,
    /// In order; at most one in each [`Seams::EVERY`] bytes.
    pub(crate) seams: Vec<Seam>,
}

/// Collects seams while a text is tokenised.
#[derive(Debug, Default)]
pub(crate) struct Seams {
    found: Vec<Seam>,
    next: usize,
    /// Where the part in work begins in the text, and how many bytes were put before it.
    base: usize,
    lead: usize,
}

impl Seams {
    /// Bytes from one seam to the next, at least: so much is tokenised again for nothing, about 5 µs.
    const EVERY: usize = 512;

    /// Those of a known text up to `last`.
    pub(crate) fn up_to(known: &[Seam], last: Seam) -> Seams {
        let upto = known.partition_point(|seam| seam.at <= last.at);
        Seams { found: known[..upto].to_vec(), next: last.at + Seams::EVERY, base: 0, lead: 0 }
    }

    /// Goes on with the part that begins at `base` of the text and has `lead` bytes before it that the text has not.
    pub(crate) fn part(&mut self, base: usize, lead: usize) {
        (self.base, self.lead) = (base, lead);
    }

    /// Whether a seam at this place of the part would be noted.
    pub(crate) fn wants(&self, at: usize) -> bool {
        at > self.lead && self.base + at - self.lead >= self.next
    }

    /// Notes a seam inside the part.
    pub(crate) fn note(&mut self, at: usize, tokens: usize) {
        self.push(self.base + at - self.lead, tokens, false);
    }

    /// Notes that a token that was found as it is ends at `at` of the text, if a seam is wanted there.
    pub(crate) fn note_token(&mut self, at: usize, tokens: usize) {
        if at >= self.next {
            self.push(at, tokens, true);
        }
    }

    fn push(&mut self, at: usize, tokens: usize, after_token: bool) {
        self.found.push(Seam { at, tokens, after_token });
        self.next = at + Seams::EVERY;
    }

    pub(crate) fn into_found(self) -> Vec<Seam> {
        self.found
    }
}

/// How often and how much was known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownStats {
    /// Texts that were looked for.
    pub lookups: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of them whose tokens were known.
    pub known_bytes: u64,
    /// Texts that are kept now.
    pub texts: usize,
    /// Memory that they take.
    pub memory: usize,
}

/// The texts that were tokenised lately, by scope, within a bound. Shared by threads.
#[derive(Debug)]
pub struct KnownTexts {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    scopes: HashMap<Box<[u8]>, Scope>,
    memory: usize,
    texts: usize,
    clock: u64,
    /// Rises with each erasure: a text that was tokenised meanwhile is not kept.
    erasures: u64,
    stats: KnownStats,
}

#[derive(Debug, Default)]
struct Scope {
    texts: Vec<Kept>,
    memory: usize,
}

#[derive(Debug)]
struct Kept {
    used: u64,
    known: Arc<Known>,
}

/// A text that is known.
#[derive(Debug)]
struct Known {
    parsed: bool,
    text: Box<str>,
    guards: Box<[usize]>,
    encoded: Encoded,
}

impl Known {
    fn memory(&self) -> usize {
        self.text.len()
            + size_of_val(&*self.guards)
            + self.encoded.tokens.capacity() * size_of::<TokenId>()
            + self.encoded.seams.capacity() * size_of::<Seam>()
            + size_of::<Known>()
    }

    /// Bytes that both begin with, and that are read the same way.
    fn common(&self, text: &str, guards: &[usize]) -> usize {
        let same = common_bytes(self.text.as_bytes(), text.as_bytes());
        let mine = self.guards.iter().map(Some).chain(std::iter::repeat(None));
        let theirs = guards.iter().map(Some).chain(std::iter::repeat(None));
        let parting =
            mine.zip(theirs).take(self.guards.len().max(guards.len())).find(|(a, b)| a != b);
        let parting = parting.and_then(|(mine, theirs)| mine.into_iter().chain(theirs).min());
        parting.map_or(same, |&guard| same.min(guard))
    }

    /// The last seam that lies `reach` bytes before `common`.
    fn seam(&self, common: usize, reach: usize) -> Option<Seam> {
        let seams = &self.encoded.seams;
        let safe = seams.partition_point(|seam| seam.at + reach <= common);
        safe.checked_sub(1).map(|last| seams[last])
    }
}

impl KnownTexts {
    /// Room for `limit` bytes of texts with their tokens. 0 keeps nothing.
    pub fn new(limit: usize) -> KnownTexts {
        KnownTexts { limit, state: Mutex::default() }
    }

    /// What [`Tokenizer::encode_prompt`] gives.
    pub fn encode_prompt(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        special: Special,
        whose: &TextUse<'_>,
    ) -> Vec<TokenId> {
        let parsed = special == Special::Parse;
        self.encode(tokenizer, parsed, text, &[], whose)
    }

    /// What [`Tokenizer::encode_rendered`] gives.
    pub fn encode_rendered(
        &self,
        tokenizer: &Tokenizer,
        rendered: &Rendered,
        whose: &TextUse<'_>,
    ) -> Vec<TokenId> {
        self.encode(tokenizer, true, rendered.text(), rendered.guards(), whose)
    }

    /// Forgets the texts of a scope; says how many there were.
    pub fn forget(&self, scope: &[u8]) -> usize {
        let mut state = self.state();
        state.erasures += 1;
        let key = scope_key(scope);
        let gone = state.scopes.extract_if(|name, _| name.starts_with(&key));
        let (texts, memory) =
            gone.fold((0, 0), |sum, (_, gone)| (sum.0 + gone.texts.len(), sum.1 + gone.memory));
        state.memory -= memory;
        state.texts -= texts;
        texts
    }

    /// Forgets all texts; says how many there were.
    pub fn clear(&self) -> usize {
        let mut state = self.state();
        state.erasures += 1;
        state.scopes.clear();
        state.memory = 0;
        std::mem::take(&mut state.texts)
    }

    /// Counters and what is kept.
    pub fn stats(&self) -> KnownStats {
        let state = self.state();
        KnownStats { texts: state.texts, memory: state.memory, ..state.stats }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn encode(
        &self,
        tokenizer: &Tokenizer,
        parsed: bool,
        text: &str,
        guards: &[usize],
        whose: &TextUse<'_>,
    ) -> Vec<TokenId> {
        // Where tokens overlap, which one is found may depend on all that follows: such a vocabulary has no seams.
        let reach = tokenizer.reach(parsed).filter(|_| text.len() >= LEAST && self.limit > 0);
        let Some(reach) = reach.filter(|_| whose.read || whose.store) else {
            let encoded = tokenizer.encode_from(parsed, text, guards, None, whose.store);
            return tokenizer.with_bos(encoded.tokens);
        };
        let (known, erasures) = self.find(parsed, text, guards, whose);
        let start = known
            .as_ref()
            .and_then(|(known, common)| Some((&known.encoded, known.seam(*common, reach)?)));
        let from = start.map_or(0, |(_, seam)| seam.at);
        let encoded = tokenizer.encode_from(parsed, text, guards, start, whose.store);
        {
            let mut state = self.state();
            state.stats.lookups += u64::from(whose.read);
            state.stats.bytes += if whose.read { text.len() as u64 } else { 0 };
            state.stats.known_bytes += from as u64;
        }
        let covered = known
            .as_ref()
            .is_some_and(|(_, common)| text.len() - common < WORTH.min(text.len() / 4));
        if !whose.store || covered {
            return tokenizer.with_bos(encoded.tokens);
        }
        let tokens = tokenizer.with_bos(encoded.tokens.clone());
        let known = Known { parsed, text: text.into(), guards: guards.into(), encoded };
        self.keep(known, whose.key(), erasures);
        tokens
    }

    /// The known text of the scope that goes on longest with this one, and how many bytes they share.
    fn find(
        &self,
        parsed: bool,
        text: &str,
        guards: &[usize],
        whose: &TextUse<'_>,
    ) -> (Option<(Arc<Known>, usize)>, u64) {
        let key = whose.key();
        let (candidates, erasures) = {
            let state = self.state();
            let scope = state.scopes.get(&*key).filter(|_| whose.read);
            let candidates: Vec<Arc<Known>> = scope
                .map(|scope| scope.texts.iter().map(|kept| Arc::clone(&kept.known)).collect())
                .unwrap_or_default();
            (candidates, state.erasures)
        };
        // Compared outside the lock: it takes some 5 µs for each 100 kB that they share.
        let best = candidates
            .into_iter()
            .filter(|known| known.parsed == parsed)
            .map(|known| {
                let common = known.common(text, guards);
                (known, common)
            })
            .max_by_key(|(_, common)| *common)
            .filter(|(_, common)| *common > 0);
        if let Some((best, _)) = &best {
            let mut state = self.state();
            state.clock += 1;
            let clock = state.clock;
            let kept = state.scopes.get_mut(&*key).and_then(|scope| {
                scope.texts.iter_mut().find(|kept| Arc::ptr_eq(&kept.known, best))
            });
            if let Some(kept) = kept {
                kept.used = clock;
            }
        }
        (best, erasures)
    }

    fn keep(&self, known: Known, scope: Vec<u8>, erasures: u64) {
        let size = known.memory();
        // One text must not take the place of all others.
        if size > self.limit / 4 {
            return;
        }
        let mut state = self.state();
        if state.erasures != erasures {
            return;
        }
        state.clock += 1;
        let clock = state.clock;
        let (mut freed, mut replaced) = (0, 0);
        let own = state.scopes.entry(scope.into()).or_default();
        own.texts.retain(|kept| {
            let other = &kept.known;
            let lost = other.text.len() - other.common(&known.text, &known.guards);
            let stays = other.parsed != known.parsed || lost > LOSS.min(other.text.len() / 4);
            if !stays {
                freed += other.memory();
                replaced += 1;
            }
            stays
        });
        own.texts.push(Kept { used: clock, known: Arc::new(known) });
        if own.texts.len() > PER_SCOPE {
            freed += own.drop_oldest();
            replaced += 1;
        }
        own.memory = own.memory + size - freed;
        state.memory = state.memory + size - freed;
        state.texts = state.texts + 1 - replaced;
        while state.memory > self.limit {
            state.drop_one();
        }
    }
}

impl Scope {
    /// Drops the least recently used text; says what memory it took, which is still counted.
    fn drop_oldest(&mut self) -> usize {
        let oldest = (0..self.texts.len()).min_by_key(|&index| self.texts[index].used);
        oldest.map_or(0, |oldest| self.texts.swap_remove(oldest).known.memory())
    }
}

impl State {
    /// Drops the least recently used text of the scope that has the most.
    fn drop_one(&mut self) {
        let Some(name) = self
            .scopes
            .iter()
            .max_by(|a, b| a.1.memory.cmp(&b.1.memory).then_with(|| a.0.cmp(b.0)))
            .map(|(name, _)| name.clone())
        else {
            self.memory = 0;
            return;
        };
        let Some(scope) = self.scopes.get_mut(&name) else { return };
        let gone = scope.drop_oldest();
        scope.memory -= gone;
        self.memory -= gone;
        self.texts -= 1;
        if scope.texts.is_empty() {
            self.scopes.remove(&name);
        }
    }
}

/// How many bytes two texts begin with together.
fn common_bytes(left: &[u8], right: &[u8]) -> usize {
    const STRIDE: usize = 256;
    let strides = left.chunks_exact(STRIDE).zip(right.chunks_exact(STRIDE));
    let whole = strides.take_while(|(left, right)| left == right).count() * STRIDE;
    let rest = left[whole..].iter().zip(&right[whole..]);
    whole + rest.take_while(|(left, right)| left == right).count()
}
