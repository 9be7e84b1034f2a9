//! An answer's bytes, in time.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame as BodyFrame, SizeHint};
use tokio::time::Sleep;

use crate::seen::{Ending, Mark};

/// How a body ends once its chunks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// In good order.
    Clean,
    /// The connection breaks.
    Cut,
    /// Never.
    Stall,
}

/// A body: chunks with waits between them, and an end.
#[derive(Debug)]
pub(crate) struct Play {
    chunks: VecDeque<Bytes>,
    wait: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    end: End,
    flushed: bool,
    mark: Option<Mark>,
}

impl Play {
    pub(crate) fn new(
        chunks: VecDeque<Bytes>,
        wait: Duration,
        end: End,
        mark: Option<Mark>,
    ) -> Self {
        Play { chunks, wait, sleep: None, end, flushed: false, mark }
    }

    fn ended(&mut self, ending: Ending) {
        if let Some(mark) = &mut self.mark {
            mark.end(ending);
        }
    }
}

impl Body for Play {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, io::Error>>> {
        let this = &mut *self;
        if !this.wait.is_zero() && !this.chunks.is_empty() {
            let wait = this.wait;
            let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            this.sleep = None;
        }
        if let Some(chunk) = this.chunks.pop_front() {
            if let Some(mark) = &mut this.mark {
                mark.chunk();
            }
            // A body of one chunk with a known length isn't polled again.
            if this.chunks.is_empty() && this.end == End::Clean {
                this.ended(Ending::Answered);
            }
            return Poll::Ready(Some(Ok(BodyFrame::data(chunk))));
        }
        match this.end {
            End::Clean => {
                this.ended(Ending::Answered);
                Poll::Ready(None)
            }
            // What was sent is on its way before the connection breaks: the server flushes where a body waits.
            End::Cut if !std::mem::replace(&mut this.flushed, true) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            End::Cut => {
                this.ended(Ending::Cut);
                let error = io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the script");
                Poll::Ready(Some(Err(error)))
            }
            // Nothing wakes it: the client leaves, and the body is dropped.
            End::Stall => Poll::Pending,
        }
    }

    /// Known for a body in one piece, which then has a `Content-Length`.
    fn size_hint(&self) -> SizeHint {
        match self.chunks.front() {
            Some(chunk) if self.chunks.len() == 1 && self.end == End::Clean => {
                SizeHint::with_exact(chunk.len() as u64)
            }
            _ => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty() && self.end == End::Clean
    }
}
