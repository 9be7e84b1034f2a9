//! Where a forward pass spends its time (feature `profile`; without it all of this is empty and costs nothing).

#[cfg(feature = "profile")]
use std::time::{Duration, Instant};

/// A part of the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Checks, lists of rows, and reading embeddings.
    Embed,
    /// Norms, residual sums.
    Norm,
    /// Rounding activations to 8 bits.
    Load,
    /// Products with the layers' matrices.
    Matmul,
    /// Rotary positions.
    Rope,
    /// Writing K and V.
    Write,
    /// Attention over everything.
    FullAttention,
    /// Attention over a window.
    WindowAttention,
    /// The gate's function.
    Gate,
    /// The last norm and the output head.
    Head,
    /// Products with adapters.
    Adapters,
}

impl Stage {
    /// All of them, in the order of their numbers.
    pub const ALL: [Stage; 11] = [
        Stage::Embed,
        Stage::Norm,
        Stage::Load,
        Stage::Matmul,
        Stage::Rope,
        Stage::Write,
        Stage::FullAttention,
        Stage::WindowAttention,
        Stage::Gate,
        Stage::Head,
        Stage::Adapters,
    ];
}

/// Times by stage, added up over forward passes.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    #[cfg(feature = "profile")]
    times: [Duration; Stage::ALL.len()],
    #[cfg(feature = "profile")]
    last: Option<Instant>,
}

impl Profile {
    /// A forward pass begins.
    pub(crate) fn begin(&mut self) {
        #[cfg(feature = "profile")]
        {
            self.last = Some(Instant::now());
        }
    }

    /// What was done since the last mark belongs to `stage`.
    pub(crate) fn mark(&mut self, stage: Stage) {
        #[cfg(feature = "profile")]
        {
            let now = Instant::now();
            if let Some(last) = self.last.replace(now) {
                self.times[stage as usize] += now - last;
            }
        }
        #[cfg(not(feature = "profile"))]
        let _ = stage;
    }

    /// The time that a stage has taken.
    #[cfg(feature = "profile")]
    pub fn time(&self, stage: Stage) -> Duration {
        self.times[stage as usize]
    }
}
