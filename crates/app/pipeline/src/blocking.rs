//! The way, for code that is not async.

use std::io;
use std::sync::Arc;

use tapri_api::{Admission, ApiError, Call, CallEvent, Prompt};
use tokio::runtime::Runtime;

use crate::{Pipeline, Running};

/// A [`Pipeline`] with a small runtime of its own. Not to be used inside another runtime: its methods would panic.
#[derive(Clone)]
pub struct BlockingPipeline {
    pipeline: Pipeline,
    runtime: Arc<Runtime>,
}

impl BlockingPipeline {
    /// Fails only where the system gives no runtime (no file descriptors, say).
    pub fn new(pipeline: Pipeline) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(BlockingPipeline { pipeline, runtime: Arc::new(runtime) })
    }

    /// The way itself.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// [`Pipeline::start`]. It returns when the call is admitted; then [`BlockingCall`] gives the events, among
    /// them `Prefill` with the progress of reading the prompt.
    pub fn start(&self, call: Call) -> Result<BlockingCall, ApiError> {
        let running = self.runtime.block_on(self.pipeline.start(call))?;
        Ok(BlockingCall { running, runtime: Arc::clone(&self.runtime) })
    }

    /// [`Pipeline::tokenize`].
    pub fn tokenize(&self, prompt: Prompt) -> Result<Vec<u32>, ApiError> {
        self.runtime.block_on(self.pipeline.tokenize(prompt))
    }

    /// [`Pipeline::tokenize_piece`].
    pub fn tokenize_piece(&self, text: &str) -> Result<Vec<u32>, ApiError> {
        self.runtime.block_on(self.pipeline.tokenize_piece(text.to_owned()))
    }

    /// [`Pipeline::detokenize`].
    pub fn detokenize(&self, ids: Vec<u32>) -> Result<String, ApiError> {
        self.runtime.block_on(self.pipeline.detokenize(ids))
    }
}

/// A call that was admitted, as an iterator over its events; the last is `Finished` or `Failed`. Dropping it
/// cancels the call.
pub struct BlockingCall {
    running: Running,
    runtime: Arc<Runtime>,
}

impl BlockingCall {
    /// What was known when it was admitted.
    pub fn admission(&self) -> &Admission {
        self.running.admission()
    }
}

impl Iterator for BlockingCall {
    type Item = CallEvent;

    fn next(&mut self) -> Option<CallEvent> {
        self.runtime.block_on(self.running.next())
    }
}
