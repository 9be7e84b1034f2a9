//! `tapri semantic`.

mod eval;
mod explain;
mod state;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use tapri_embed::{Embedder, MiniLm};
use tapri_registry::{ModelRef, Recheck};

use crate::failure::Failure;
use crate::pull::pulled;

const EXAMPLES: &str = "\
Examples:
  tapri semantic eval pairs.jsonl
  tapri semantic status
  tapri semantic label
  tapri semantic explain 'How do I lock my card?' 'How do I unlock my card?'

The semantic cache is off unless a route turns it on.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SemanticArgs {
    #[command(subcommand)]
    command: SemanticCommand,
}

#[derive(Debug, Subcommand)]
enum SemanticCommand {
    /// Say what would be served of labelled pairs of questions, rightly and wrongly
    Eval(eval::EvalArgs),
    /// Say what would happen to a pair of questions, and why
    Explain(explain::ExplainArgs),
    /// Say from which similarity up each route may serve, and what is known
    Status(state::StatusArgs),
    /// Say whether stored answers are right for the questions that they were compared for
    Label(state::LabelArgs),
}

/// The encoder where none is named.
pub(crate) const DEFAULT_ENCODER: &str = "all-minilm-l6-v2";

/// The encoder's flag, the same for every subcommand that embeds.
#[derive(Debug, Clone, Args)]
pub(crate) struct EncoderArgs {
    /// The sentence encoder: a name from 'tapri pull', or the path of its .safetensors file
    #[arg(
        long,
        env = "TAPRI_ENCODER",
        hide_env_values = true,
        value_name = "MODEL",
        default_value = DEFAULT_ENCODER
    )]
    pub(crate) encoder: String,
}

pub(crate) fn run(args: &SemanticArgs) -> Result<ExitCode> {
    match &args.command {
        SemanticCommand::Eval(args) => eval::run(args),
        SemanticCommand::Explain(args) => explain::run(args),
        SemanticCommand::Status(args) => state::status(args),
        SemanticCommand::Label(args) => state::label(args),
    }
}

/// The encoder, pulled if it is missing, and checked.
pub(crate) fn encoder(args: &EncoderArgs) -> Result<Embedder> {
    let path = std::path::PathBuf::from(&args.encoder);
    let model = if path.extension().is_some_and(|extension| extension == "safetensors") {
        ModelRef::Path(path)
    } else {
        let named = args.encoder.parse::<ModelRef>();
        named.map_err(|error| {
            let hint = error.hint();
            Failure::new(error, Some(hint)).with_code(2)
        })?
    };
    let hint = "all-minilm-l6-v2 is an encoder; 'tapri pull all-minilm-l6-v2' brings it";
    let path = pulled(&model, Recheck::No)?;
    let model = MiniLm::open(&path).map_err(|error| Failure::new(error, Some(hint)))?;
    Ok(Embedder::checked(model).map_err(|error| Failure::new(error, Some(hint)))?)
}
