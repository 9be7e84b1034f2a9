//! The line that is logged every few seconds, when something happened.

use std::time::Duration;

use tapri_pipeline::{BackendStats, Pipeline};

/// Logs for ever; to be dropped when the server stops.
pub(crate) async fn run(pipeline: Pipeline, interval: Duration) {
    let mut last = BackendStats::default();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let Some(now) = pipeline.stats() else { return };
        if let Some(line) = line(&last, &now, interval) {
            tracing::info!("{line}");
        }
        last = now;
    }
}

/// What happened since the last time, or nothing if nothing did.
fn line(last: &BackendStats, now: &BackendStats, interval: Duration) -> Option<String> {
    let prompt = now.prompt_tokens.saturating_sub(last.prompt_tokens);
    let answer = now.answer_tokens.saturating_sub(last.answer_tokens);
    if prompt == 0
        && answer == 0
        && now.prefix_queries == last.prefix_queries
        && now.running + now.waiting == 0
    {
        return None;
    }
    let seconds = interval.as_secs_f64().max(f64::MIN_POSITIVE);
    let share =
        |part: u64, whole: u64| if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 };
    Some(format!(
        "prompt {:.1} tokens/s, answers {:.1} tokens/s, running {}, waiting {}, KV in use {:.1}%, prefix hit rate over the last 1,000 calls {:.1}%",
        prompt as f64 / seconds,
        answer as f64 / seconds,
        now.running,
        now.waiting,
        share(now.blocks_used as u64, now.blocks_total as u64),
        share(now.recent_hits, now.recent_queries),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_only_when_something_happened() {
        let second = Duration::from_secs(10);
        let idle = BackendStats {
            prompt_tokens: 5,
            answer_tokens: 5,
            prefix_queries: 5,
            ..Default::default()
        };
        assert_eq!(line(&idle, &idle, second), None);
        let busy = BackendStats {
            prompt_tokens: 1005,
            answer_tokens: 25,
            prefix_queries: 1005,
            running: 2,
            waiting: 1,
            blocks_used: 1,
            blocks_total: 8,
            recent_queries: 1000,
            recent_hits: 940,
            ..idle
        };
        assert_eq!(
            line(&idle, &busy, second).as_deref(),
            Some(
                "prompt 100.0 tokens/s, answers 2.0 tokens/s, running 2, waiting 1, KV in use 12.5%, \
                 prefix hit rate over the last 1,000 calls 94.0%"
            )
        );
    }
}
