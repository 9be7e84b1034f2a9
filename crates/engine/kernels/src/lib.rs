//! Quantised matmul, paged attention, norms and RoPE: the only SIMD.

mod compute;
mod isa;
mod pool;

pub use compute::Compute;
pub use isa::{ISA_VARIABLE, Isa, IsaError};
pub use pool::Pool;
