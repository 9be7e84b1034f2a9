//! The events of one call.

use std::pin::Pin;

use tapri_api::CallEvent;

/// Where a [`CallStream`] gets its events. Dropping it cancels the call.
pub trait EventSource: Send {
    /// The next event; `None` after the last.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>>;
}

/// The events of one call, in the order that [`CallEvent`] promises. Dropping it cancels the call.
pub struct CallStream {
    source: Box<dyn EventSource>,
    ended: bool,
}

impl CallStream {
    /// Events from a source.
    pub fn new(source: impl EventSource + 'static) -> Self {
        CallStream { source: Box::new(source), ended: false }
    }

    /// The next event; `None` after `Finished` or `Failed`. Can be dropped while it waits without losing an event.
    ///
    /// A source that dries up without a last event has lost its engine, and the caller is told so.
    pub async fn next(&mut self) -> Option<CallEvent> {
        if self.ended {
            return None;
        }
        let event = self.source.next().await.unwrap_or_else(|| CallEvent::Failed(lost()));
        self.ended = matches!(event, CallEvent::Finished(_) | CallEvent::Failed(_));
        Some(event)
    }
}

fn lost() -> tapri_api::ApiError {
    tapri_api::ApiError::new(
        tapri_api::ErrorKind::Internal,
        "The model's engine ended in the middle of the call",
    )
    .code("engine_lost")
    .hint("See the server's log, then try again")
}

impl std::fmt::Debug for CallStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}
