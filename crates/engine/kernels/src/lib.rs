//! Quantised matmul, paged attention, norms and RoPE: the only SIMD.

mod activations;
mod attention;
mod compute;
mod elementwise;
mod half;
mod isa;
mod kvstore;
mod matmul;
mod pool;
mod quant;
mod weights;

pub use activations::{Activations, Keep};
pub use attention::{AttnScratch, attention};
pub use compute::Compute;
pub use elementwise::{
    RopeConfig, RopeStyle, RopeTable, add, gelu_mul, log_sum_exp, rms_norm, rms_norm_heads, rope,
    scale, silu_mul,
};
pub use isa::{ISA_VARIABLE, Isa, IsaError};
pub use kvstore::{KvLayout, KvStore, KvStoreError, SeqRows, TILE_TOKENS, write_kv};
pub use matmul::matmul;
pub use pool::Pool;
pub use quant::{Quant, dequantise};
pub use weights::{PackError, Weights};
