//! `tapri semantic explain`.

use std::io::{Write, stdout};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tapri_cache::semantic::{Question, objections};
use tapri_embed::vector;

use super::{EncoderArgs, encoder};

const EXAMPLES: &str = "\
Examples:
  tapri semantic explain 'How do I lock my card?' 'How do I unlock my card?'";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    /// The question that was answered
    #[arg(value_name = "A")]
    stored: String,
    /// The question that comes
    #[arg(value_name = "B")]
    asked: String,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    encoder: EncoderArgs,
}

pub(super) fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let found = encoder(&args.encoder)?.embed(&[&args.stored, &args.asked])?;
    let similarity = vector::dot(&found[0].vector, &found[1].vector);
    let objections = objections(&Question::read(&args.stored), &Question::read(&args.asked));
    let mut out = stdout().lock();
    if args.json {
        let data = json!({
            "similarity": similarity,
            "passes_guards": objections.is_empty(),
            "objections": objections,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&data)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "similarity {similarity:.3}")?;
    for objection in &objections {
        writeln!(out, "{}: {}", objection.guard, objection.what)?;
    }
    if objections.is_empty() {
        writeln!(
            out,
            "No guard objects. The answer to one is given to the other where all else of the call is the same, the route \
             serves, and its labels allow a similarity of {similarity:.3}."
        )?;
    } else {
        writeln!(out, "The answer to one is never given to the other.")?;
    }
    Ok(ExitCode::SUCCESS)
}
