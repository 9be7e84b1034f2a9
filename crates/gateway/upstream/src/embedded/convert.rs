//! The engine's words to the caller's.

use std::sync::Arc;
use std::time::Duration;

use tapri_api::{
    Admission, ApiError, ErrorKind, Finish, FinishReason, Logprob, Reuse, ReuseStop, TemplateUse,
    Timings, Token, TokenLogprobs, Usage,
};
use tapri_engine::sampling::SamplingError;
use tapri_engine::{
    Admitted, EngineStats, FinishReason as EngineFinish, GenerateError, Outcome, StopReason,
    SubmitError, TokenEvent, TokenLogprob, Usage as EngineUsage,
};

use super::prompt::bad_token;
use crate::BackendStats;

/// How long a refused call should wait: about as long as a short call takes.
const BUSY: Duration = Duration::from_secs(1);

pub(super) fn admission(
    admitted: &Admitted,
    template: Option<TemplateUse>,
    prompt_ids: Option<Arc<[u32]>>,
) -> Admission {
    let own = admitted.stop.for_client();
    let reuse = Reuse {
        prompt: admitted.prompt_tokens,
        cached: admitted.cached_tokens,
        restored: admitted.restored_tokens,
        joined: admitted.joined_tokens,
        stop: match own.reason {
            StopReason::Complete => ReuseStop::Complete,
            StopReason::LastTokenRule => ReuseStop::LastToken,
            StopReason::BelowOneBlock => ReuseStop::BelowOneBlock,
            StopReason::FirstDifference => ReuseStop::Difference { token: own.token },
            // The own reason is never another scope's; should it be, this is what a client may see.
            StopReason::NeverSeen | StopReason::OtherScope => ReuseStop::NeverSeen,
            StopReason::Evicted => ReuseStop::Evicted,
            StopReason::Expired => ReuseStop::Expired,
            StopReason::WindowGone => ReuseStop::WindowGone,
            StopReason::BeingWritten => ReuseStop::BeingWritten,
            StopReason::Bypassed => ReuseStop::Bypassed,
            StopReason::Unknown => ReuseStop::Unknown,
        },
        other_scope: admitted.stop.reason == StopReason::OtherScope,
    };
    Admission {
        reuse: Some(reuse),
        queued: admitted.queued,
        template,
        prompt_ids,
        dropped: Vec::new(),
    }
}

pub(super) fn token(event: TokenEvent) -> Token {
    Token { id: event.id.0, text: event.text, logprobs: event.logprobs.map(logprobs) }
}

pub(super) fn logprobs(it: tapri_engine::TokenLogprobs) -> TokenLogprobs {
    TokenLogprobs { chosen: logprob(it.chosen), top: it.top.into_iter().map(logprob).collect() }
}

fn logprob(it: TokenLogprob) -> Logprob {
    Logprob { id: it.id.0, bytes: it.bytes, logprob: it.logprob }
}

/// The end of an answer whose engine ended it; of several, the counts of each are added up elsewhere.
pub(super) fn outcome(outcome: Outcome) -> Result<Finish, ApiError> {
    let reason = match outcome.finish {
        EngineFinish::Stop => FinishReason::Stop,
        EngineFinish::Length => FinishReason::Length,
        // Whoever cancelled it listens no more.
        EngineFinish::Cancelled => {
            return Err(
                ApiError::new(ErrorKind::Unavailable, "The call was cancelled").code("cancelled")
            );
        }
    };
    Ok(Finish {
        reason,
        matched_stop: outcome.matched_stop,
        tail: outcome.tail,
        usage: usage(&outcome.usage),
        raw: None,
        timings: Timings {
            queued: outcome.timings.queued,
            first_token: outcome.timings.first_token,
            decode: outcome.timings.decode,
            total: outcome.timings.total,
        },
    })
}

/// The counts of a call.
pub(super) fn usage(counts: &EngineUsage) -> Usage {
    Usage::from_prompt(
        counts.prompt_tokens,
        counts.cached_tokens,
        counts.joined_tokens,
        counts.answer_tokens,
    )
    .with_written(counts.written_tokens)
}

/// Why a call was not taken.
pub(super) fn refusal(error: SubmitError, field: &'static str) -> ApiError {
    match error {
        SubmitError::EmptyPrompt => ApiError::invalid(field, "The prompt has no tokens")
            .code("invalid_value")
            .hint("Give at least one; this model adds none of its own"),
        SubmitError::PromptTooLong { prompt, context } => ApiError::invalid(
            field,
            format!("The prompt has {prompt} tokens, and the model's context has {context} for prompt and answer together"),
        )
        .code("context_length_exceeded")
        .hint("Shorten the prompt, or use a model with a longer context"),
        SubmitError::BadToken { id, position, vocabulary } => {
            bad_token(&format!("{field}[{position}]"), id, vocabulary)
        }
        SubmitError::Sampling(error) => {
            let refused =
                ApiError::new(ErrorKind::Invalid, format!("The sampling can't be done: {error}"))
                    .code("invalid_value");
            match error {
                SamplingError::Bias { .. } => refused.at("logit_bias"),
                SamplingError::RepetitionPenalty(_) => refused.at("repetition_penalty"),
                _ => refused,
            }
        }
        SubmitError::Choices { asked, most } => ApiError::invalid(
            "n",
            format!("`n` must be from 1 to {most} for this model, not {asked}"),
        )
        .code("invalid_value")
        .hint("Send the request several times; the prompt is cached"),
        SubmitError::QueueFull { waiting } => {
            ApiError::new(ErrorKind::Busy, format!("{waiting} calls wait already, and no more can"))
                .code("queue_full")
                .hint("Try again later")
                .retry_after(BUSY)
        }
        SubmitError::ShuttingDown => shutting_down(),
        SubmitError::NotErased(why) => {
            tracing::error!("KV pages on disk were not erased: {why}");
            ApiError::new(ErrorKind::Internal, "What is kept on disk could not be erased")
                .code("not_erased")
                .hint("See the server's log; stop the server and delete the folder of kv_disk")
        }
        other => internal(&other),
    }
}

/// Why a call that was taken failed.
pub(super) fn failure(error: &GenerateError, field: &'static str) -> ApiError {
    match error {
        GenerateError::ShuttingDown => shutting_down(),
        GenerateError::ExceedsKvBudget { needed, capacity, of_share: true } => ApiError::invalid(
            field,
            format!("The prompt needs {needed} blocks of KV memory, and your share of it has {capacity}"),
        )
        .code("kv_share_exceeded")
        .hint("Shorten the prompt, or have the operator raise kv_share"),
        GenerateError::ExceedsKvBudget { needed, capacity, of_share: false } => ApiError::invalid(
            field,
            format!("The prompt needs {needed} blocks of KV memory, and the server has {capacity} in all"),
        )
        .code("kv_memory_exceeded")
        .hint("Shorten the prompt, or have the operator raise --kv-memory"),
        GenerateError::PinsFull { needed, pinned, limit, of_share } => {
            let whose = if *of_share { "you may have pinned" } else { "may be pinned in all" };
            let left = limit.saturating_sub(*pinned);
            ApiError::new(
                ErrorKind::Invalid,
                format!("The start needs {needed} more blocks of KV memory to be pinned, and of the {limit} that {whose} {left} are left"),
            )
            .at(field)
            .code("pins_full")
            .hint("Take another pin away, pin a shorter start, or have the operator raise --pin-limit")
        }
        GenerateError::NothingToPin { block } => ApiError::invalid(
            field,
            format!("There is nothing to pin: starts are pinned by whole blocks of {block} tokens, in a prefix cache that is on"),
        )
        .code("nothing_to_pin")
        .hint("Pin a longer start"),
        GenerateError::Constraint(reason) => ApiError::new(
            ErrorKind::Invalid,
            format!("The answer could not be kept to its grammar: {reason}"),
        )
        .code("grammar_failed")
        .hint("Simplify the schema"),
        other => internal(other),
    }
}

fn shutting_down() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "The server is shutting down")
        .code("shutting_down")
        .hint("Try again in a moment")
        .retry_after(Duration::from_secs(5))
}

/// A defect: the log has what there is, the caller learns that it isn't to blame.
fn internal(error: &dyn std::error::Error) -> ApiError {
    tracing::error!("the engine failed on a call: {error}");
    ApiError::new(ErrorKind::Internal, "The model's engine failed on this call")
        .code("engine_failed")
        .hint("See the server's log")
}

/// Field by field, so that a new counter doesn't compile until someone decides who sees it.
pub(super) fn stats(stats: &EngineStats) -> BackendStats {
    let EngineStats {
        prefix_queries,
        prefix_hits,
        prefix_joined,
        prefix_ghost_hits,
        preemptions,
        recomputed_tokens,
        prompt_tokens,
        answer_tokens,
        evicted_blocks,
        evicted_window_blocks,
        expired_blocks,
        reset_blocks,
        disk,
        text_bytes,
        known_text_bytes,
        running,
        waiting,
        joining,
        blocks_used,
        blocks_cached,
        blocks_pinned,
        pins,
        blocks_total,
        block_tokens,
        block_bytes,
        recent: (recent_queries, recent_hits),
        uptime: _,
    } = *stats;
    BackendStats {
        prefix_queries,
        prefix_hits,
        prefix_joined,
        prefix_ghost_hits,
        preemptions,
        recomputed_tokens,
        prompt_tokens,
        answer_tokens,
        evicted_blocks,
        evicted_window_blocks,
        expired_blocks,
        reset_blocks,
        disk,
        text_bytes,
        known_text_bytes,
        running,
        waiting,
        joining,
        blocks_used,
        blocks_cached,
        blocks_pinned,
        pins,
        blocks_total,
        block_tokens,
        block_bytes,
        recent_queries,
        recent_hits,
    }
}
