//! A hosted API's rules against two requests: what it can't have cached, and where its markers stand.

use std::collections::HashSet;
use std::time::Duration;

use tapri_ledger::MissReason;

use super::difference::Compared;
use super::{Also, Tokens};
use crate::prompt::{Part, PromptDoc, Speaker};
use crate::rules::{Markers, Rule};

/// What is known of a call at a provider.
pub(super) struct Hosted<'a> {
    pub(super) rule: Rule<'a>,
    pub(super) old: &'a PromptDoc,
    pub(super) new: &'a PromptDoc,
    pub(super) compared: &'a Compared<'a>,
    pub(super) prompt: Tokens,
    pub(super) gap: Option<Duration>,
    pub(super) overlapped: bool,
}

impl Hosted<'_> {
    /// The first of the provider's rules that keeps this start from being read.
    pub(super) fn fault(&self, cached: Option<u64>) -> Option<Also> {
        self.minimum()
            .or_else(|| self.markers())
            .or_else(|| self.overlap())
            .or_else(|| self.lifetime(cached))
    }

    fn minimum(&self) -> Option<Also> {
        let minimum = self.rule.minimum?;
        // An estimate has to be clearly below.
        let most = if self.prompt.estimated { minimum - minimum / 4 } else { minimum };
        (self.prompt.count < most).then(|| Also {
            reason: MissReason::BelowMinimum,
            words: format!(
                "{} caches nothing below {minimum} tokens for this model",
                self.rule.provider.name
            ),
        })
    }

    fn overlap(&self) -> Option<Also> {
        self.overlapped.then(|| Also {
            reason: MissReason::BeingWritten,
            words: "the earlier call was still being read when this one began".to_owned(),
        })
    }

    fn lifetime(&self, cached: Option<u64>) -> Option<Also> {
        let provider = self.rule.provider;
        let asked = self
            .old
            .markers
            .iter()
            .map(|marker| marker.ttl.as_deref())
            .chain(self.old.automatic_marker.iter().map(Option::as_deref))
            .max_by_key(|asked| provider.lifetime_of(*asked))
            .flatten()
            .or(self.old.lifetime.as_deref());
        let lifetime = provider.lifetime_of(asked)?;
        let gap = self.gap?;
        (gap > lifetime && cached.unwrap_or(0) == 0).then(|| Also {
            reason: MissReason::Expired,
            words: format!(
                "{} after the earlier call; {} {}keeps a start for {}",
                minutes(gap),
                provider.name,
                if provider.certain { "" } else { "typically " },
                minutes(lifetime)
            ),
        })
    }

    fn markers(&self) -> Option<Also> {
        let provider = self.rule.provider;
        let found = |reason, words: String| Some(Also { reason, words });
        let count =
            |doc: &PromptDoc| doc.markers.len() + usize::from(doc.automatic_marker.is_some());
        if let Some(most) = provider.most
            && count(self.new) > most
        {
            let words = format!("{} markers; {} takes {most}", count(self.new), provider.name);
            return found(MissReason::MarkerMisplaced, words);
        }
        if provider.long_first && short_before_long(self.new, &self.rule) {
            let words =
                "a marker with a longer lifetime stands behind one with a shorter".to_owned();
            return found(MissReason::MarkerMisplaced, words);
        }
        match provider.markers {
            Markers::None => return None,
            Markers::Needed => {
                for (doc, which) in [(self.new, "this request"), (self.old, "the earlier request")]
                {
                    if count(doc) == 0 {
                        let words = format!("{which} marks nothing, so nothing of it is cached");
                        return found(MissReason::MarkerMissing, words);
                    }
                }
            }
            Markers::Optional if self.new.explicit_only && count(self.new) == 0 => {
                let words = "explicit mode without a marker caches nothing".to_owned();
                return found(MissReason::MarkerMissing, words);
            }
            Markers::Optional if provider.fallback => return None,
            Markers::Optional => {}
        }
        let ends = ends(self.old, provider.markers);
        let shared = self.equal_parts();
        let readable: Vec<usize> = ends.iter().copied().filter(|end| *end < shared).collect();
        if readable.is_empty() {
            let (reason, words) = if self.old.markers.is_empty()
                && provider.markers == Markers::Optional
            {
                let words =
                    "the only breakpoint is the automatic one on the last message, which changed";
                (MissReason::MarkerMissing, words)
            } else {
                (MissReason::MarkerMisplaced, "every marker stands behind what changed")
            };
            return found(reason, words.to_owned());
        }
        let (lookback, starts) = (provider.lookback?, self::ends(self.new, provider.markers));
        let distance = starts
            .iter()
            .flat_map(|start| readable.iter().map(move |end| (*end, *start)))
            .filter(|(end, start)| end <= start)
            .map(|(end, start)| blocks(&self.new.parts[end..=start]))
            .min()?;
        (distance > lookback).then(|| Also {
            reason: MissReason::MarkerMisplaced,
            words: format!(
                "the nearest marker is {distance} content blocks behind what was stored; {} looks back {lookback}",
                provider.name
            ),
        })
    }

    /// Parts that are the same from the start.
    fn equal_parts(&self) -> usize {
        match self.compared {
            Compared::Differs(difference) => difference.part,
            Compared::Cut => self.new.parts.len(),
            Compared::Same | Compared::Grew => self.old.parts.len(),
        }
    }
}

/// The parts behind which a request's start is cached: its markers, the automatic one, and, where markers are
/// optional, the latest message of a user or a tool.
fn ends(doc: &PromptDoc, markers: Markers) -> Vec<usize> {
    let mut ends: Vec<usize> = doc.markers.iter().map(|marker| marker.part).collect();
    let implicit = markers == Markers::Optional && !doc.explicit_only;
    if doc.automatic_marker.is_some() && !doc.parts.is_empty() {
        ends.push(doc.parts.len() - 1);
    }
    if implicit {
        let latest = doc.parts.iter().rposition(|part| {
            doc.turn_of(part)
                .is_some_and(|turn| matches!(turn.speaker, Speaker::User | Speaker::Tool))
        });
        ends.extend(latest.or(doc.parts.len().checked_sub(1)));
    }
    ends
}

fn short_before_long(doc: &PromptDoc, rule: &Rule<'_>) -> bool {
    let lifetimes: Vec<_> =
        doc.markers.iter().map(|marker| rule.provider.lifetime_of(marker.ttl.as_deref())).collect();
    lifetimes.windows(2).any(|pair| pair[0] < pair[1])
}

/// Content blocks of some parts: a tool call is one block of several parts.
fn blocks(parts: &[Part]) -> usize {
    parts.iter().map(|part| block(&part.path)).collect::<HashSet<_>>().len()
}

fn block(path: &str) -> &str {
    let from = match path.find(".content[") {
        Some(at) => at + ".content".len(),
        None if path.starts_with("system[") || path.starts_with("tools[") => 0,
        None => return path,
    };
    path[from..].find(']').map_or(path, |end| &path[..=from + end])
}

fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
