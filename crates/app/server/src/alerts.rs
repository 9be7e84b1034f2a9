//! Alerts on the hit rates of tenants and routes: to the log, to a webhook, to `/metrics`.
//!
//! Every call that ended is handed to a thread of its own over a bounded queue; a call never waits for it. Where the
//! queue is full, calls are left out of the statistics and counted.
//!
//! Map: [`webhook`] sending; `collector` what `/metrics` shows of it.

pub(crate) mod collector;
pub mod webhook;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tapri_insight::alert::{self, Alert, Call, Kind, Subject, Watch};
use tapri_ledger::CallRecord;
use tapri_pipeline::Observer;

use self::webhook::{Webhook, WebhookConfig};

/// How long calls are gathered before they are counted: to wake the thread for each would cost a call more than all
/// else that is done for it here.
const GATHERED: Duration = Duration::from_millis(200);

/// Calls that wait to be counted; a thousand are counted in about a millisecond.
const QUEUE: usize = 4096;

/// Alerts that are kept to be looked at.
const LATEST: usize = 50;

/// What is watched, and who is told besides the log.
#[derive(Debug, Clone, Default)]
pub struct AlertConfig {
    /// The statistics.
    pub watch: alert::Config,
    /// Where alerts are sent.
    pub webhook: Option<WebhookConfig>,
}

/// The watch of a running server.
pub(crate) struct Alerts {
    shared: Arc<Shared>,
    queue: Mutex<Option<SyncSender<Ended>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    watch: Mutex<Watch>,
    webhook: Option<Webhook>,
    said: [AtomicU64; 3],
    left_out: AtomicU64,
    /// The last ones, the newest first.
    latest: Mutex<VecDeque<Alert>>,
}

/// A series that is in alarm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) subject: Subject,
    pub(crate) kind: Kind,
}

/// What is needed of a call that ended.
struct Ended {
    at: jiff::Timestamp,
    tenant: String,
    route: String,
    prompt: u64,
    reused: u64,
}

impl Alerts {
    /// Starts watching. `None` where the system gives no thread, which is logged.
    pub(crate) fn start(config: AlertConfig) -> Option<Arc<Self>> {
        let shared = Arc::new(Shared {
            watch: Mutex::new(Watch::new(config.watch)),
            webhook: config.webhook.and_then(Webhook::start),
            said: Default::default(),
            left_out: AtomicU64::new(0),
            latest: Mutex::default(),
        });
        let (queue, calls) = sync_channel(QUEUE);
        let worker = std::thread::Builder::new().name("tapri-alerts".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || work(&shared, &calls)
        });
        match worker {
            Ok(worker) => Some(Arc::new(Alerts {
                shared,
                queue: Mutex::new(Some(queue)),
                worker: Mutex::new(Some(worker)),
            })),
            Err(error) => {
                tracing::error!("hit rates are not watched: no thread for it: {error}");
                None
            }
        }
    }

    /// Takes the calls of a pipeline.
    pub(crate) fn observer(self: &Arc<Self>) -> Observer {
        // Weak: the pipeline is part of what holds these alerts.
        let alerts = Arc::downgrade(self);
        Arc::new(move |record, _| {
            if let Some(alerts) = alerts.upgrade() {
                alerts.ended(record);
            }
        })
    }

    /// Counts a call that ended.
    pub(crate) fn ended(&self, record: &CallRecord) {
        let Some(call) = Ended::of(record) else { return };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queue.as_ref()
            && let Err(TrySendError::Full(_)) = queue.try_send(call)
        {
            self.shared.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The series that are in alarm now, in the order of their names.
    pub(crate) fn standing(&self) -> Vec<Standing> {
        let watch = self.shared.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let in_alarm = watch.gauges().filter_map(|gauge| {
            Some(Standing { subject: gauge.subject.clone(), kind: gauge.alarm? })
        });
        let mut standing: Vec<Standing> = in_alarm.collect();
        standing.sort_by(|a, b| a.subject.cmp(&b.subject));
        standing
    }

    /// The last alerts, the newest first.
    pub(crate) fn latest(&self) -> Vec<Alert> {
        let latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.iter().cloned().collect()
    }

    /// Ends the watch: calls that wait are counted, alerts that wait are sent within the limit. Blocks.
    pub(crate) fn stop(&self, limit: Duration) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            worker.thread().unpark();
            // A panic has been reported by the thread itself.
            let _ = worker.join();
        }
        if let Some(webhook) = &self.shared.webhook {
            webhook.stop(limit);
        }
    }
}

impl Ended {
    /// `None` for calls that say nothing of the cache: those that failed early, and those that were not to look.
    fn of(record: &CallRecord) -> Option<Self> {
        let prompt = record.tokens.prompt?;
        // What another call computed for it counts as reused: the cache did its work.
        let reused = record.tokens.reused()?;
        let bypassed = record
            .prefix
            .as_ref()
            .is_some_and(|prefix| prefix.outcome == tapri_ledger::CacheOutcome::Bypass);
        (!bypassed).then(|| Ended {
            at: record.at,
            tenant: record.tenant.clone(),
            route: record.route.clone(),
            prompt,
            reused,
        })
    }
}

fn work(shared: &Shared, calls: &Receiver<Ended>) {
    while let Ok(first) = calls.recv() {
        let mut first = Some(first);
        // While calls come it looks for them itself: to wake a thread costs the call that wakes it.
        loop {
            // Ends early when the watch does.
            std::thread::park_timeout(GATHERED);
            let mut came = first.is_some();
            first.iter().for_each(|call| count(shared, call));
            first = None;
            loop {
                match calls.try_recv() {
                    Ok(call) => {
                        count(shared, &call);
                        came = true;
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            if !came {
                break;
            }
        }
    }
}

fn count(shared: &Shared, call: &Ended) {
    let alerts = shared.watch.lock().unwrap_or_else(PoisonError::into_inner).see(&Call {
        at: call.at,
        tenant: &call.tenant,
        route: &call.route,
        prompt: call.prompt,
        cached: call.reused,
    });
    alerts.iter().for_each(|alert| say(shared, alert));
}

fn say(shared: &Shared, alert: &Alert) {
    shared.said[alert.kind as usize].fetch_add(1, Ordering::Relaxed);
    if alert.kind == Kind::Recovered {
        tracing::info!("{alert}");
    } else {
        tracing::warn!("ALERT: {alert}");
    }
    {
        let mut latest = shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.push_front(alert.clone());
        latest.truncate(LATEST);
    }
    if let Some(webhook) = &shared.webhook {
        webhook.send(alert.json().to_string());
    }
}
