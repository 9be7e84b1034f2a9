//! A log of calls, in order: each against the nearest one before it, and what every break cost.
//!
//! Calls are grouped by their conversation where they name one; the first call of a conversation, and calls that name
//! none, are compared with recent ones of others. Two views of each call are kept apart: `nearest`, the earlier
//! prompt with the longest common start, is what a cache would have reused, and decides what a break cost;
//! `previous`, the call before it in the same conversation, is what a reader sees who puts neighbours side by side.
//! Memory is bounded whatever the log's length: a number of recent prompts, of breaks shown in full, of causes.
//!
//! Map: `source` finds the calls in a file of any known form; `store` keeps the recent prompts; `causes` adds up.

use std::sync::Arc;

use serde::Serialize;
use tapri_ledger::{MissReason, Money};

use crate::explain::{Evidence, Found, Tokens, explain, shared_bytes};
use crate::prices::{Billed, PriceBook};
use crate::prompt::{HostedDiagnosis, PromptDoc};
use crate::rules::Rules;

mod causes;
mod source;
mod store;

pub use causes::{Cause, PathShape};
pub use source::{Form, ReadError, Scanned, read};

use causes::Causes;
use store::{Kept, Store};

/// Prompts that share fewer bytes are equally near.
const NEXT_TO_NOTHING: usize = 64;

/// How many equally near prompts are compared whole.
const LOOKED_AT: usize = 8;

/// The token ids of a prompt.
pub type Tokenise<'a> = &'a dyn Fn(&PromptDoc) -> Option<Vec<u32>>;

/// What a history is made with.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Bytes of recent prompts, all together.
    pub bytes: usize,
    /// Recent prompts of one conversation, and of first calls.
    pub recent: usize,
    /// Breaks kept in full: the most expensive ones.
    pub breaks: usize,
    /// What tokens cost; without it, breaks have no price.
    pub prices: Option<&'a PriceBook>,
    /// Lays a prompt out as a model reads it; without it, or where it gives nothing, tokens are estimated.
    pub tokens: Option<Tokenise<'a>>,
    /// Rules of hosted providers.
    pub rules: Option<&'a Rules>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            bytes: 256 << 20,
            recent: 64,
            breaks: 1_000,
            prices: None,
            tokens: None,
            rules: None,
        }
    }
}

/// Which call of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRef {
    /// Its number among the log's calls, from 1.
    pub number: u64,
    /// Where it stands in the file: a line from 1, or an element.
    pub at: String,
    /// Its own id, where it has one.
    pub id: Option<String>,
}

/// A call that did not just go on from the one before it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Break {
    /// The call.
    pub call: CallRef,
    /// Its conversation, where it names one.
    pub conversation: Option<String>,
    /// The call before it in its conversation, and how it differs from that.
    pub previous: Option<Against>,
    /// The earlier call that shares the longest start with it, and how it differs from that.
    pub nearest: Option<Against>,
    /// What reading the lost tokens again cost more than reading them from the cache: an estimate.
    pub cost: Option<Money>,
    /// What the provider itself said.
    pub hosted: Option<Hosted>,
}

/// A call against an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Against {
    /// The earlier call.
    pub call: CallRef,
    /// What differs.
    pub found: Found,
}

/// A provider's own diagnosis beside ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hosted {
    /// What it said.
    pub diagnosis: HostedDiagnosis,
    /// Whether it says the same as we do; `None` where it says nothing that can be compared.
    pub agrees: Option<bool>,
}

impl Break {
    /// How it differs from what a cache would have reused.
    #[must_use]
    pub fn found(&self) -> Option<&Found> {
        self.nearest.as_ref().or(self.previous.as_ref()).map(|against| &against.found)
    }

    /// Tokens that were read again for it.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.found().filter(|found| found.is_alarm()).map_or(0, |found| found.lost.count)
    }

    /// Whether there is something to repair.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        self.found().is_some_and(Found::is_alarm)
    }
}

/// What a log says altogether.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Calls read.
    pub calls: u64,
    /// Conversations that were named.
    pub conversations: u64,
    /// Calls that went on from an earlier one, or repeated it.
    pub grew: u64,
    /// Calls that only put a new last message behind the same start.
    pub new_questions: u64,
    /// Calls with nothing like them before.
    pub never_seen: u64,
    /// Calls that lost something that can be repaired.
    pub alarms: u64,
    /// Tokens read again for those.
    pub lost: Tokens,
    /// What that cost: an estimate, one amount for each currency.
    pub cost: Vec<Money>,
    /// Models whose prices aren't known.
    pub unpriced: Vec<String>,
    /// The causes, the most expensive first.
    pub causes: Vec<Cause>,
    /// The breaks that lost most, worst first, and those that lost nothing behind them, in the log's order.
    pub breaks: Vec<Break>,
    /// How many breaks are not among them.
    pub more_breaks: u64,
    /// Calls whose provider diagnosed them, and of those that can be compared, how many agree.
    pub diagnosed: (u64, u64, u64),
}

/// A log that is being read.
pub struct History<'a> {
    options: Options<'a>,
    store: Store,
    causes: Causes,
    breaks: Vec<Break>,
    report: Report,
}

impl<'a> History<'a> {
    /// An empty one.
    #[must_use]
    pub fn new(options: Options<'a>) -> Self {
        let report = Report {
            calls: 0,
            conversations: 0,
            grew: 0,
            new_questions: 0,
            never_seen: 0,
            alarms: 0,
            lost: Tokens::default(),
            cost: Vec::new(),
            unpriced: Vec::new(),
            causes: Vec::new(),
            breaks: Vec::new(),
            more_breaks: 0,
            diagnosed: (0, 0, 0),
        };
        let store = Store::new(options.bytes, options.recent);
        History { options, store, causes: Causes::default(), breaks: Vec::new(), report }
    }

    /// Calls read so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.report.calls
    }

    /// Takes the next call; `at` is where it stands in the file.
    pub fn add(&mut self, doc: PromptDoc, at: impl Into<String>) {
        self.report.calls += 1;
        let call = CallRef { number: self.report.calls, at: at.into(), id: doc.id.clone() };
        let tokens = self.options.tokens.and_then(|tokens| tokens(&doc));
        let kept = Arc::new(Kept { doc, call, tokens });
        let previous = self.store.previous(&kept.doc);
        let nearest = self.nearest(&kept.doc);
        let against = |earlier: &Arc<Kept>| Against {
            call: earlier.call.clone(),
            found: explain(&earlier.doc, &kept.doc, &self.evidence(earlier, &kept)),
        };
        let near = nearest.as_ref().map(against);
        let before = match (&previous, &nearest) {
            (Some(previous), Some(nearest)) if Arc::ptr_eq(previous, nearest) => near.clone(),
            (Some(previous), _) => Some(against(previous)),
            (None, _) => None,
        };
        self.tally(&kept, before, near);
        if self.store.add(kept) {
            self.report.conversations += 1;
        }
    }

    /// The result.
    #[must_use]
    pub fn finish(mut self) -> Report {
        self.trim();
        self.report.causes = self.causes.sorted();
        // A stable sort keeps the log's order among equals.
        self.breaks.sort_by_key(|found| (std::cmp::Reverse(found.lost()), !found.is_alarm()));
        self.report.breaks = self.breaks;
        self.report
    }

    fn evidence(&self, old: &Kept, new: &Kept) -> Evidence<'a> {
        let evidence = Evidence { rules: self.options.rules, ..Evidence::default() };
        match (&old.tokens, &new.tokens) {
            (Some(old), Some(new)) => evidence.with_tokens(old, new),
            _ => evidence,
        }
    }

    /// The earlier prompt that shares most with this one: of its conversation, or, for a first call, of all first
    /// calls. Of equally near ones, that with most in common behind the first difference; then the latest. Where all
    /// share next to nothing they are equally near: a value that changes may stand at the very top.
    fn nearest(&self, doc: &PromptDoc) -> Option<Arc<Kept>> {
        let shared: Vec<(usize, &Arc<Kept>)> = self
            .store
            .candidates(doc)
            .map(|earlier| (shared_bytes(&earlier.doc, doc), earlier))
            .collect();
        let most = shared.iter().map(|(shared, _)| *shared).max()?;
        let near: Vec<&Arc<Kept>> = shared
            .iter()
            .filter(|(shared, _)| *shared == most || most < NEXT_TO_NOTHING)
            .map(|(_, earlier)| *earlier)
            .take(LOOKED_AT)
            .collect();
        if let [only] = near.as_slice() {
            return Some(Arc::clone(only));
        }
        let lost = |earlier: &Kept| explain(&earlier.doc, doc, &Evidence::default()).lost.count;
        // The last of equal maxima is taken: the latest, from the back.
        near.into_iter().rev().max_by_key(|earlier| lost(earlier)).map(Arc::clone)
    }

    fn tally(&mut self, kept: &Kept, previous: Option<Against>, nearest: Option<Against>) {
        let Some(found) = nearest.as_ref().map(|against| &against.found) else {
            self.report.never_seen += 1;
            return;
        };
        let alarm = found.is_alarm();
        match found.reason {
            MissReason::Growth | MissReason::CutAtEnd => self.report.grew += 1,
            MissReason::LastMessage => self.report.new_questions += 1,
            MissReason::NeverSeen => self.report.never_seen += 1,
            _ => {}
        }
        let hosted = kept.doc.diagnosis.clone().map(|diagnosis| {
            let agrees = agrees(&diagnosis, found.reason);
            self.report.diagnosed.0 += 1;
            self.report.diagnosed.1 += u64::from(agrees.is_some());
            self.report.diagnosed.2 += u64::from(agrees == Some(true));
            Hosted { diagnosis, agrees }
        });
        let visible = |against: &Against| against.found.reason != MissReason::Growth;
        // What the provider sees and we don't is worth a look.
        let disputed = hosted.as_ref().is_some_and(|hosted| hosted.agrees == Some(false));
        if !alarm
            && !disputed
            && !previous.as_ref().is_some_and(visible)
            && !nearest.as_ref().is_some_and(visible)
        {
            return;
        }
        // Below its minimum a provider caches nothing, and nothing is saved.
        let cached = !found.also.iter().any(|also| also.reason == MissReason::BelowMinimum);
        let cost = (alarm && cached).then(|| self.cost(&kept.doc, found.lost.count)).flatten();
        let found = Break {
            call: kept.call.clone(),
            conversation: kept.doc.conversation.clone(),
            previous,
            nearest,
            cost,
            hosted,
        };
        if alarm {
            self.report.alarms += 1;
            self.report.lost.count += found.lost();
            self.report.lost.estimated |= found.found().is_some_and(|found| found.lost.estimated);
            if let Some(cost) = &found.cost {
                add_money(&mut self.report.cost, cost);
            }
            self.causes.add(&found);
        }
        self.breaks.push(found);
        if self.breaks.len() >= self.options.breaks.saturating_mul(2).max(16) {
            self.trim();
        }
    }

    /// Lets go of the breaks that cost least.
    fn trim(&mut self) {
        if self.breaks.len() > self.options.breaks {
            self.breaks.sort_by_key(|found| (std::cmp::Reverse(found.lost()), !found.is_alarm()));
            self.report.more_breaks += (self.breaks.len() - self.options.breaks) as u64;
            self.breaks.truncate(self.options.breaks);
        }
    }

    /// What reading tokens cost more than having them read from the cache.
    fn cost(&mut self, doc: &PromptDoc, tokens: u64) -> Option<Money> {
        let (book, model) = (self.options.prices?, doc.model.as_deref()?);
        let list = match book.find(model) {
            Ok(list) => list,
            Err(_) => {
                if !self.report.unpriced.iter().any(|known| known == model)
                    && self.report.unpriced.len() < 20
                {
                    self.report.unpriced.push(model.to_owned());
                }
                return None;
            }
        };
        let read = list.cost(&Billed { uncached: tokens, ..Billed::default() });
        let cached = list.cost(&Billed { cached: tokens, ..Billed::default() });
        Some(list.money(read.amount - cached.amount))
    }
}

fn add_money(sums: &mut Vec<Money>, cost: &Money) {
    match sums.iter_mut().find(|sum| sum.currency == cost.currency) {
        Some(sum) => sum.amount += cost.amount,
        None => sums.push(cost.clone()),
    }
}

/// Whether a provider's word and our reason say the same.
fn agrees(diagnosis: &HostedDiagnosis, reason: MissReason) -> Option<bool> {
    use MissReason as R;
    Some(match diagnosis.verdict.as_str() {
        "cache_hit" => matches!(reason, R::Growth | R::LastMessage | R::CutAtEnd),
        "model_changed" => reason == R::Model,
        "prompt_cache_key_changed" => reason == R::Salt,
        "tools_changed" => matches!(
            reason,
            R::ToolAdded | R::ToolRemoved | R::ToolsReordered | R::ToolReserialised | R::ToolEdited
        ),
        "text_format_changed" | "reasoning_effort_changed" | "verbosity_changed" => {
            reason == R::ParametersChanged
        }
        "context_compacted" => matches!(reason, R::TurnsShortened | R::TurnsSummarised),
        "system_changed" | "messages_changed" | "input_changed" => !matches!(
            reason,
            R::Model
                | R::Salt
                | R::ToolAdded
                | R::ToolRemoved
                | R::ToolsReordered
                | R::ToolReserialised
                | R::ToolEdited
                | R::ParametersChanged
                | R::Growth
                | R::Expired
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
