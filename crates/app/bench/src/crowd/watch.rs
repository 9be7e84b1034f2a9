//! The KV memory that a server's metrics show, looked at again and again while something happens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tapri's gauge of what running calls use; what is merely kept for reuse is not in it.
const GAUGE: &str = "tapri_kv_used_bytes";

/// Often enough for an answer of a second, and no load to speak of.
const INTERVAL: Duration = Duration::from_millis(50);

/// Does `work`, and gives the largest value that the gauge had meanwhile. `None` where the server has no such gauge.
pub(super) fn peak<T>(url: &str, work: impl FnOnce() -> T) -> (T, Option<u64>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(url, &done));
        let result = work();
        done.store(true, Ordering::Release);
        (result, watcher.join().ok().flatten())
    })
}

fn watch(url: &str, done: &AtomicBool) -> Option<u64> {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).build().into();
    let mut peak = 0;
    while !done.load(Ordering::Acquire) {
        let text = agent.get(format!("{url}/metrics")).call().ok()?.into_body().read_to_string();
        peak = peak.max(gauge(&text.ok()?)?);
        std::thread::sleep(INTERVAL);
    }
    Some(peak)
}

/// The gauge's value, of all models together.
fn gauge(metrics: &str) -> Option<u64> {
    let samples = metrics.lines().filter(|line| {
        line.strip_prefix(GAUGE).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    });
    let values: Option<Vec<f64>> =
        samples.map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_is_found_among_others() {
        let text = "# TYPE tapri_kv_used_bytes gauge\n\
            tapri_kv_used_bytes_more 7\n\
            tapri_kv_used_bytes{model_name=\"a b\",engine=\"0\"} 4096.0\n\
            tapri_kv_budget_bytes{model_name=\"a b\"} 9\n";
        assert_eq!(gauge(text), Some(4096));
        assert_eq!(gauge("tapri_kv_used_bytes 12\n"), Some(12));
        assert_eq!(gauge("llamacpp:prompt_tokens_total 3\n"), None);
    }
}
