//! Quantised matmul, paged attention, norms and RoPE: the only SIMD.

mod activations;
mod compute;
mod half;
mod isa;
mod matmul;
mod pool;
mod quant;
mod weights;

pub use activations::{Activations, Keep};
pub use compute::Compute;
pub use isa::{ISA_VARIABLE, Isa, IsaError};
pub use matmul::matmul;
pub use pool::Pool;
pub use quant::{Quant, dequantise};
pub use weights::{PackError, Weights};
