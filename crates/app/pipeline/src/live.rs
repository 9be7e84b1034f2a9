//! Calls as they end, for whoever looks on.

use std::sync::Arc;

use tapri_ledger::{CallRecord, Explain, Explanation};
use tokio::sync::broadcast;

/// Ended calls that wait for a slow follower; it loses the oldest beyond.
const WAITING: usize = 256;

/// Where ended calls are shown. Cheap to clone; clones share the followers.
///
/// A call never waits for it: with no follower nothing is kept, and a follower that is too slow loses calls and is told
/// how many.
#[derive(Debug, Clone)]
pub struct Live {
    sender: broadcast::Sender<Arc<Ended>>,
}

/// A call that ended.
#[derive(Debug)]
pub struct Ended {
    /// Its record, without the explanation, the parts and the trace, which the ledger has a moment later.
    pub record: CallRecord,
    explain: Option<Explain>,
}

/// Someone who looks on.
#[derive(Debug)]
pub struct Follower {
    receiver: broadcast::Receiver<Arc<Ended>>,
}

/// What a follower sees.
#[derive(Debug, Clone)]
pub enum Seen {
    /// A call ended.
    Ended(Arc<Ended>),
    /// So many calls ended while the follower was behind, and are lost to it.
    Lost(u64),
}

impl Default for Live {
    fn default() -> Self {
        Live { sender: broadcast::Sender::new(WAITING) }
    }
}

impl Live {
    /// Sees the calls that end from now on.
    pub fn follow(&self) -> Follower {
        Follower { receiver: self.sender.subscribe() }
    }

    pub(crate) fn ended(&self, record: &CallRecord, explain: Option<&Explain>) {
        if self.sender.receiver_count() > 0 {
            let ended = Ended { record: record.clone(), explain: explain.cloned() };
            // The last follower may have left meanwhile.
            let _ = self.sender.send(Arc::new(ended));
        }
    }
}

impl Ended {
    /// Why it reused less than it could. Takes milliseconds the first time: not to be called on a thread that serves
    /// sockets.
    pub fn explanation(&self) -> Option<Explanation> {
        (self.explain.as_ref()?.0)()
    }
}

impl Follower {
    /// Waits for the next; `None` once nothing can come any more. The future can be dropped without losing anything.
    pub async fn next(&mut self) -> Option<Seen> {
        match self.receiver.recv().await {
            Ok(ended) => Some(Seen::Ended(ended)),
            Err(broadcast::error::RecvError::Lagged(lost)) => Some(Seen::Lost(lost)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn record(id: u64) -> CallRecord {
        CallRecord::new(id.to_string(), jiff::Timestamp::UNIX_EPOCH)
    }

    #[tokio::test]
    async fn a_slow_follower_loses_the_oldest_and_is_told() {
        let live = Live::default();
        live.ended(&record(0), None);
        let (mut slow, mut quick) = (live.follow(), live.follow());
        for id in 1..=WAITING as u64 + 10 {
            live.ended(&record(id), None);
            let Some(Seen::Ended(ended)) = quick.next().await else { panic!("lost {id}") };
            assert_eq!(ended.record.id, id.to_string());
        }
        assert!(matches!(slow.next().await, Some(Seen::Lost(10))));
        let Some(Seen::Ended(ended)) = slow.next().await else { panic!() };
        assert_eq!(ended.record.id, "11");
    }

    #[tokio::test]
    async fn the_explanation_comes_with_the_call_when_it_is_asked_for() {
        let live = Live::default();
        let mut follower = live.follow();
        let explanation = tapri_insight::explain::alone(tapri_ledger::MissReason::Evicted);
        let found = explanation.clone();
        live.ended(&record(1), Some(&Explain(Arc::new(move || Some(found.clone())))));
        let Some(Seen::Ended(ended)) = follower.next().await else { panic!() };
        assert_eq!(ended.record.explanation, None);
        assert_eq!(ended.explanation().unwrap(), explanation);
        drop(live);
        assert!(follower.next().await.is_none());
    }
}
