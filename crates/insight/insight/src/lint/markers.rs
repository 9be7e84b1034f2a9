//! Checks of a request's markers against its provider's rules.

use crate::lint::alone::estimate;
use crate::lint::rule::{Finding, Rule};
use crate::prompt::{Kind, Marker, PromptDoc};
use crate::rules::{Markers, Rule as Provided};

/// Checks the markers of a request.
pub(crate) fn check(doc: &PromptDoc, rule: &Provided<'_>) -> Vec<Finding> {
    let name = &rule.provider.name;
    let mut found = Vec::new();
    if rule.provider.markers == Markers::None {
        return found;
    }
    let Some(last) = doc.markers.last() else {
        let long = estimate(doc.parts.iter()) >= rule.minimum.unwrap_or(0);
        let needed = rule.provider.markers == Markers::Needed || doc.explicit_only;
        if needed && doc.automatic_marker.is_none() && long {
            found.push(Finding::new(
                Rule::MarkerMissing,
                doc.parts.first().map_or("", |part| part.path.as_str()),
                format!("{name} caches only what is marked, and nothing is"),
                "Put a marker on the last block that stays the same.",
            ));
        }
        return found;
    };
    let count = doc.markers.len() + usize::from(doc.automatic_marker.is_some());
    if let Some(most) = rule.provider.most.filter(|most| count > *most) {
        let beyond = doc.markers.get(most).unwrap_or(last);
        found.push(Finding::new(
            Rule::TooManyMarkers,
            beyond.path.clone(),
            format!("there are {count} markers, and {name} takes {most}"),
            "Keep the markers on the tools, the instructions and the newest turns.",
        ));
    }
    if rule.provider.long_first {
        let lifetime = |marker: &Marker| rule.provider.lifetime_of(marker.ttl.as_deref());
        let rising = doc.markers.windows(2).find(|two| lifetime(&two[0]) < lifetime(&two[1]));
        if let Some(two) = rising {
            found.push(Finding::new(
                Rule::MarkerOrder,
                two[1].path.clone(),
                format!(
                    "a lifetime of {} is marked behind one of {}",
                    two[1].ttl.as_deref().unwrap_or("5m"),
                    two[0].ttl.as_deref().unwrap_or("5m")
                ),
                "Mark longer lifetimes in front of shorter ones.",
            ));
        }
    }
    if let Some(most) = rule.provider.lookback {
        let mut from = 0;
        for marker in &doc.markers {
            let blocks = doc
                .parts
                .get(from..=marker.part)
                .map_or(0, |parts| parts.iter().filter(|part| part.kind != Kind::Id).count());
            // The first marker has nothing stored in front of it to be found.
            if from > 0 && blocks > most {
                found.push(Finding::new(
                    Rule::Lookback,
                    marker.path.clone(),
                    format!("{blocks} blocks stand between this marker and the one before, and {name} looks back {most}"),
                    format!("Put a marker at least every {most} blocks."),
                ));
            }
            from = marker.part + 1;
        }
    }
    let behind = doc.parts.get(last.part + 1..).unwrap_or_default();
    let tokens = estimate(behind.iter());
    if doc.automatic_marker.is_none()
        && rule.minimum.is_some_and(|minimum| minimum > 0 && tokens >= minimum)
    {
        found.push(Finding::new(
            Rule::AfterLastMarker,
            behind.first().map_or("", |part| part.path.as_str()),
            format!("about {tokens} tokens stand behind the last marker, and are never cached"),
            "Where the next call will repeat them, put a marker on their last block.",
        ));
    }
    found
}
