//! The estimate of a plan.

use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::time::Duration;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tapri_insight::cost::unhelpful::span;
use tapri_insight::cost::{BreakEven, Estimate, Plan, best_lifetime, break_even, estimate};
use tapri_insight::prices::{PriceList, Split, Tier};

use crate::cost::{CostArgs, PlanArgs};
use crate::failure::Failure;
use crate::prices::{self, named};
use crate::pull::lines;
use crate::quantity::show_count;

pub(super) fn run(args: &CostArgs) -> Result<()> {
    let list = prices::list(
        args.prices.as_deref().unwrap_or("example"),
        args.model.as_deref().unwrap_or("the plan's"),
    )
    .map_err(|error| match &args.model {
        Some(_) => error,
        None => needs_model(error),
    })?;
    let plan = plan(&args.plan)?;
    if plan.tier == Tier::Batch && !list.has(Tier::Batch) {
        let error = anyhow::anyhow!("the price list {} has no prices for batches", named(&list));
        return Err(
            Failure::new(error, Some("leave --batch out, or give a list that has them")).into()
        );
    }
    if let Some(lifetime) = plan.lifetime {
        let rates = list.rates(plan.tier, plan.prompt());
        if !rates.writes.is_empty() && !rates.writes.contains_key(&lifetime) {
            let known: Vec<_> = rates.writes.keys().map(ToString::to_string).collect();
            let error = anyhow::anyhow!(
                "the price list {} has no price for writes that are kept for {lifetime}",
                named(&list)
            );
            return Err(Failure::new(error, Some(format!("it has: {}", known.join(", ")))).into());
        }
    }
    let found = estimate(&list, &plan);
    let breaks = break_even(list.rates(plan.tier, plan.prompt()));
    let mut out = stdout().lock();
    if args.json {
        let whole = data(&list, &plan, &found, &breaks, &args.plan);
        writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
    } else {
        write!(out, "{}", text(&list, &plan, &found, &breaks, &args.plan))?;
    }
    Ok(())
}

/// A book was given and no model: its error would name a model that nobody gave.
fn needs_model(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Failure>() {
        Some(failure) if failure.to_string().contains("has no model 'the plan's'") => {
            let error = anyhow::anyhow!("these prices are a book of many models");
            Failure::new(error, Some("name one with --model; 'tapri prices search WORDS' finds it"))
                .into()
        }
        _ => error,
    }
}

fn plan(args: &PlanArgs) -> Result<Plan> {
    let prefix = args.prefix.unwrap_or(0);
    let question = match args.input_tokens {
        None => args.question,
        Some(all) => all.checked_sub(prefix).ok_or_else(|| {
            Failure::usage(
                format!("a prompt of {all} tokens can't begin with {prefix}"),
                "--input-tokens counts the prefix as well",
            )
        })?,
    };
    Ok(Plan {
        tier: if args.batch { Tier::Batch } else { Tier::Standard },
        lifetime: args.ttl,
        gap: args.gap,
        ..Plan::new(prefix, question, args.answer, args.calls)
    })
}

fn count(tokens: u64) -> String {
    show_count(usize::try_from(tokens).unwrap_or(usize::MAX))
}

fn text(
    list: &PriceList,
    plan: &Plan,
    found: &Estimate,
    breaks: &[BreakEven],
    args: &PlanArgs,
) -> String {
    let mut text = format!(
        "{} call{} with the same {} tokens at the start, {} of their own and {} in the answer\n\n",
        count(plan.calls),
        if plan.calls == 1 { "" } else { "s" },
        count(plan.prefix),
        count(plan.question),
        count(plan.answer),
    );
    let less = found.percent_less();
    let compared = match less {
        0 => "as much".to_owned(),
        1.. => format!("{less} percent less"),
        _ => format!("{} percent more", -less),
    };
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["", "without caching", "with caching", ""]);
    let mut add = |what: &str, pick: fn(&Split) -> Decimal, note: &str| {
        if (pick(&found.without_split) + pick(&found.with_split)).is_zero() {
            return;
        }
        let money = |split: &Split| list.money(pick(split)).rounded(2);
        table.add_row([
            what.to_owned(),
            money(&found.without_split),
            money(&found.with_split),
            note.to_owned(),
        ]);
    };
    add("prompt, computed", |split| split.uncached, "");
    add("prompt, written to the cache", |split| split.written, "");
    add("prompt, from the cache", |split| split.cached, "");
    add("answers", |split| split.answer, "");
    add("in all", Split::total, &compared);
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let _ = writeln!(text, "{}\n", lines(&table));
    let reading = found.percent_reading();
    let _ =
        writeln!(text, "Without caching {reading} percent of the bill is for reading the prompt.");
    if let (Some(miss), Some(hit)) = (args.ttft_miss, args.ttft_hit) {
        let seconds = |time: Decimal| (time + args.answer_time).normalize();
        let _ = writeln!(
            text,
            "An answer takes {} s without caching, and {} s from the second on with it.",
            seconds(miss),
            seconds(hit)
        );
    }
    for one in breaks {
        let _ = writeln!(text, "{}", break_text(one));
    }
    for why in &found.unhelpful {
        let _ = writeln!(text, "It does not help: {why}.");
    }
    if let Some((lifetime, best)) = best_lifetime(list, plan)
        && best.with.amount < found.with.amount
        && best.with.amount < found.without.amount
    {
        let _ = writeln!(text, "With --ttl {lifetime} it would cost {}.", best.with.rounded(2));
    }
    let times = if args.ttft_miss.is_some() { "; the times are yours" } else { "" };
    let _ = writeln!(
        text,
        "\nestimate: your token counts at the price list {}; every call but the first is taken to find the start{times}",
        named(list)
    );
    text
}

/// What the prices say of a lifetime, in a sentence.
pub(crate) fn break_text(one: &BreakEven) -> String {
    let Some(lifetime) = one.lifetime else {
        return match one.calls {
            Some(calls) => {
                format!("A write costs nothing: caching pays from call {} on.", calls + 1)
            }
            None => "Caching never pays at these prices.".to_owned(),
        };
    };
    let pays = match one.calls {
        Some(calls) => format!("Kept for {lifetime}, a start is paid for by call {calls}"),
        None => format!("Kept for {lifetime}, a start is never paid for"),
    };
    match (one.touches, one.longest_gap) {
        (Some(1..), Some(gap)) => {
            format!(
                "{pays}; kept warm by touching it, it is worth waiting {} for the next.",
                span(gap)
            )
        }
        _ => format!("{pays}; keeping it warm by touching it is not worth it."),
    }
}

/// What the prices say of a lifetime, as data.
pub(crate) fn break_data(one: &BreakEven) -> Value {
    json!({
        "lifetime": one.lifetime,
        "calls_to_pay": one.calls,
        "touches": one.touches,
        "longest_gap_seconds": one.longest_gap.map(|gap: Duration| gap.as_secs()),
    })
}

fn data(
    list: &PriceList,
    plan: &Plan,
    found: &Estimate,
    breaks: &[BreakEven],
    args: &PlanArgs,
) -> Value {
    let split = |split: &Split| {
        json!({
            "computed": split.uncached.normalize(),
            "written": split.written.normalize(),
            "cached": split.cached.normalize(),
            "answers": split.answer.normalize(),
            "total": split.total().normalize(),
        })
    };
    let seconds = |ttft: Option<Decimal>| ttft.map(|ttft| (ttft + args.answer_time).normalize());
    json!({
        "schema": "tapri.cost/1",
        "plan": {
            "prefix_tokens": plan.prefix,
            "question_tokens": plan.question,
            "answer_tokens": plan.answer,
            "calls": plan.calls,
            "tier": plan.tier,
            "lifetime": plan.lifetime,
            "gap_seconds": plan.gap.map(|gap| gap.as_secs_f64()),
        },
        "currency": list.currency,
        "price_list": list.name,
        "price_date": list.date_text(),
        "price_model": list.model,
        "without_caching": split(&found.without_split),
        "with_caching": split(&found.with_split),
        "percent_less": found.percent_less(),
        "percent_for_reading": found.percent_reading(),
        "seconds_without_caching": seconds(args.ttft_miss),
        "seconds_with_caching": seconds(args.ttft_hit),
        "break_even": breaks.iter().map(break_data).collect::<Vec<_>>(),
        "does_not_help": found.unhelpful.iter().map(|why| {
            json!({"reason": why, "message": why.to_string()})
        }).collect::<Vec<_>>(),
        "estimated": ["without_caching", "with_caching", "percent_less", "percent_for_reading", "break_even"],
    })
}
