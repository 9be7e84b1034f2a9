//! What an audit will send, and whether it may.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use anyhow::Result;
use tapri_insight::prices::Billed;

use super::caller::Caller;
use super::levels::Level;
use super::target::Target;
use super::{AuditArgs, LevelArg};
use crate::failure::Failure;
use crate::prices;
use crate::quantity::show_count;

/// What an audit sends at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Most {
    pub(super) requests: u64,
    /// An estimate: a letter is a token, and what a template adds is left out.
    pub(super) tokens: u64,
}

impl Most {
    /// Every plan of every level, and one request before each to open the way.
    pub(super) fn of(levels: &[Level]) -> Self {
        let plans = || levels.iter().flat_map(|level| &level.plans);
        Most {
            requests: plans().map(|plan| plan.requests() + 1).sum(),
            tokens: plans().map(|plan| plan.tokens() + plan.letters as u64).sum(),
        }
    }

    /// Refuses what is more than was allowed.
    pub(super) fn check(self, args: &AuditArgs) -> Result<()> {
        let allowed = args.max_requests.get() as u64;
        if self.requests <= allowed {
            return Ok(());
        }
        let message = format!(
            "it may take {} requests, and --max-requests allows {}",
            show_count(self.requests as usize),
            show_count(allowed as usize)
        );
        Err(Failure::usage(
            message,
            "lower --samples or --victim-requests, or raise --max-requests",
        )
        .into())
    }
}

/// Says what will be sent and what that costs, and asks.
pub(super) fn ask(
    args: &AuditArgs,
    target: &Target,
    caller: &Caller,
    levels: &[Level],
    most: Most,
) -> Result<()> {
    let names: Vec<&str> = levels.iter().map(Level::name).collect();
    eprintln!(
        "auditing {} ({}), {}: at most {} requests with {} prompt tokens (an estimate)",
        target.base,
        caller.model(),
        names.join(", "),
        show_count(most.requests as usize),
        show_count(most.tokens as usize),
    );
    eprintln!("cost: {}", cost(args, caller.model(), most)?);
    for level in levels.iter().filter(|level| level.kind != LevelArg::User) {
        if level.victim == level.attacker {
            eprintln!(
                "note: {}: victim and attacker have the same key and salt, so it looks between callers that nothing tells apart",
                level.name()
            );
        }
    }
    if args.seed.is_some() {
        eprintln!(
            "note: prompts of this seed that the server has seen before are hits where there should be misses"
        );
    }
    if args.yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        let message = "nothing was sent: nobody was there to agree";
        return Err(Failure::usage(message, "agree beforehand with --yes").into());
    }
    eprint!("send them? [y/N] ");
    stderr().flush()?;
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::usage("nothing was sent", "answer y, or say --yes").into()),
    }
}

/// The cost in words.
fn cost(args: &AuditArgs, model: &str, most: Most) -> Result<String> {
    let book = prices::open(&args.prices)?;
    let Ok(list) = book.find(model) else {
        return Ok("unknown: the price list has no such model; another one is named with --prices"
            .to_owned());
    };
    let billed = Billed { uncached: most.tokens, answer: most.requests, ..Billed::default() };
    let of = list.date_text().map(|date| format!(" of {date}")).unwrap_or_default();
    let (name, cost) = (&list.name, list.cost(&billed));
    Ok(format!("about {cost} at most (an estimate, price list '{name}'{of})"))
}
