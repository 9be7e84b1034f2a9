//! What is the cheapest for each start, as people read it and as JSON.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tapri_insight::cost::unhelpful::span;
use tapri_insight::cost::{Advice, Group, Policy, StartAdvice};

use crate::prices::named;
use crate::pull::lines;
use crate::quantity::{show_count, show_share};

/// How many starts of a tenant and model are shown; the others are summed.
const SHOWN: usize = 10;

fn count(n: u64) -> String {
    show_count(usize::try_from(n).unwrap_or(usize::MAX))
}

pub(super) fn text(advice: &Advice) -> String {
    let mut text = String::new();
    for group in &advice.groups {
        group_text(&mut text, group);
    }
    for (model, calls) in &advice.unpriced {
        let _ = writeln!(text, "no prices: {} calls to '{model}' were left out", count(*calls));
    }
    if !advice.unpriced.is_empty() {
        text.push('\n');
    }
    let estimated = advice.groups.iter().any(|group| group.estimated);
    let tokens =
        if estimated { "tokens are estimates from lengths of text" } else { "tokens were counted" };
    let _ = writeln!(
        text,
        "estimate: each way replayed over the gaps between the calls that were made; {tokens}; a start that is touched \
         is touched on after its last call"
    );
    text
}

fn group_text(text: &mut String, group: &Group) {
    let model = if group.model.is_empty() { "not named" } else { &group.model };
    let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
    let _ = writeln!(
        text,
        "Tenant {}, model {model}, prices {}\n  {} call{}, {} prompt tokens ({} of them shared with another call), {} in \
         answers\n  without a cache {}; each start kept as is cheapest {}",
        group.tenant,
        named(&group.prices),
        count(group.calls),
        if group.calls == 1 { "" } else { "s" },
        count(group.prompt_tokens),
        show_share(size(group.shared_tokens), size(group.prompt_tokens)),
        count(group.answer_tokens),
        group.without,
        group.best,
    );
    if !group.starts.is_empty() {
        let _ = writeln!(text, "\n{}", lines(&table(group)));
    }
    if let Some(rest) = group.starts.get(SHOWN..).filter(|rest| !rest.is_empty()) {
        let saved: Decimal = rest.iter().map(StartAdvice::saved).sum();
        let _ = writeln!(
            text,
            "  and {} more starts, on which the cheapest ways save {}",
            count(rest.len() as u64),
            group.prices.money(saved)
        );
    }
    text.push('\n');
    for why in &group.unhelpful {
        let _ = writeln!(text, "  It does not help: {why}.");
    }
    let crowded: u64 = group.starts.iter().map(|start| start.crowded).sum();
    if crowded > 0 {
        let _ = writeln!(
            text,
            "  {} calls began while another was still writing the same start: send one, wait for its first token, then \
             send the others.",
            count(crowded)
        );
    }
    if !group.unhelpful.is_empty() || crowded > 0 {
        text.push('\n');
    }
}

fn table(group: &Group) -> Table {
    let ways: Vec<Policy> = group
        .starts
        .first()
        .map(|start| start.policies.iter().map(|(policy, _)| *policy).collect())
        .unwrap_or_default();
    let mut header: Vec<String> =
        ["first call", "calls", "tokens", "median gap", "longest"].map(str::to_owned).into();
    header.extend(ways.iter().map(|policy| match policy {
        Policy::Nothing => format!("{} no marker", group.prices.currency),
        Policy::Kept(lifetime) => lifetime.to_string(),
        Policy::Touched { lifetime, .. } => format!("{lifetime} touched"),
    }));
    header.push("cheapest".to_owned());
    let columns = header.len();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for start in group.starts.iter().take(SHOWN) {
        let tokens = if start.longest > start.tokens {
            format!("{} to {}", count(start.tokens), count(start.longest))
        } else {
            count(start.tokens)
        };
        let mut row = vec![start.first.clone(), count(start.calls), tokens];
        match start.gaps {
            Some((median, longest)) => row.extend([span(median), span(longest)]),
            None => row.extend(["-".to_owned(), "-".to_owned()]),
        }
        for policy in &ways {
            let cost = start.cost(*policy).map_or(Decimal::ZERO, |money| money.amount);
            row.push(format!("{:.4}", cost.round_dp(4)));
        }
        row.push(verdict(start));
        table.add_row(row);
    }
    for column in 1..columns - 1 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn verdict(start: &StartAdvice) -> String {
    match &start.unhelpful {
        Some(why) => format!("{} ({})", start.best, why.as_str().replace('_', " ")),
        None => start.best.to_string(),
    }
}

pub(super) fn data(advice: &Advice) -> Value {
    let groups: Vec<_> = advice.groups.iter().map(group_data).collect();
    json!({
        "schema": "tapri.cost-starts/1",
        "groups": groups,
        "calls_without_prices": advice.unpriced,
        "estimated": ["without_cache", "cheapest", "costs", "saved"],
    })
}

fn group_data(group: &Group) -> Value {
    let starts: Vec<_> = group
        .starts
        .iter()
        .map(|start| {
            let costs: serde_json::Map<_, _> = start
                .policies
                .iter()
                .map(|(policy, money)| (policy.name(), json!(money.amount)))
                .collect();
            json!({
                "first_call": start.first,
                "calls": start.calls,
                "tokens": start.tokens,
                "longest_tokens": start.longest,
                "tokens_of_the_start_above": start.above,
                "median_gap_seconds": start.gaps.map(|(median, _)| median.as_secs_f64()),
                "longest_gap_seconds": start.gaps.map(|(_, longest)| longest.as_secs_f64()),
                "calls_while_being_written": start.crowded,
                "costs": costs,
                "cheapest": start.best.name(),
                "saved": start.saved().normalize(),
                "does_not_help": start.unhelpful,
            })
        })
        .collect();
    json!({
        "tenant": group.tenant,
        "model": group.model,
        "price_list": group.prices.name,
        "price_model": group.prices.model,
        "price_date": group.prices.date_text(),
        "currency": group.prices.currency,
        "calls": group.calls,
        "prompt_tokens": group.prompt_tokens,
        "shared_tokens": group.shared_tokens,
        "answer_tokens": group.answer_tokens,
        "tokens_are_estimates": group.estimated,
        "without_cache": group.without.amount,
        "cheapest": group.best.amount,
        "starts": starts,
        "does_not_help": group.unhelpful.iter().map(|why| {
            json!({"reason": why, "message": why.to_string()})
        }).collect::<Vec<_>>(),
    })
}
