//! Quantised matmul, paged attention, norms and RoPE: the only SIMD.
//!
//! Everything that a decoder computes, on the CPU, written once for each instruction-set path: portable Rust (the reference),
//! AVX2, and AVX-512 with VNNI and BF16. The path is chosen when the program runs ([`Isa`]), never when it is built.
//!
//! # Invariants
//!
//! - **A row's bits depend on that row and its sequence alone.** Each sum has one order, a function of k and absolute
//!   positions. How many rows a call brings, which rows stand beside one another, the number of threads, and the way through the code
//!   (a few rows or many) change nothing. A prefix cache is exact only because of this, and the tests hold it.
//! - For products all paths even give the same bits: integer dots are exact, and floats are added by the same fused operations.
//! - Everything public is safe to call: shapes are checked. Weights may be hostile: a scale that is not a number gives results that are not numbers.
//! - No kernel allocates by the size of its input, but for buffers that are kept ([`Activations`], [`AttnScratch`], a thread's scratch).
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | `isa`, `pool`, `compute` | paths; threads that spin, then park; both together as [`Compute`] |
//! | `quant`, `half` | the formats of a GGUF file and their reference |
//! | `weights` | matrices repacked into panels of 16 columns; `weights/layout.rs` draws them |
//! | `activations` | rows as 8-bit integers with a scale for each 32 |
//! | `matmul` | products; the order of their sums is in its text |
//! | `kvstore`, `attention` | pages of keys and values in bf16 or q8_0, and attention over them where they lie |
//! | `elementwise` | norms, RoPE, gates |
//! | `scan` | one int8 vector against many: the flat index of the semantic cache |
//!
//! # Example
//!
//! ```
//! use tapri_kernels::{Activations, Compute, Isa, Quant, Weights, matmul};
//!
//! let compute = Compute::new(Isa::best(), 2);
//! // Two rows of 32 numbers in Q8_0: an f16 scale of 1, then 32 bytes.
//! let row = |value: u8| [vec![0x00, 0x3c], vec![value; 32]].concat();
//! let file = [row(1), row(2)].concat();
//! let weights = Weights::pack(&compute, Quant::Q8_0, 2, 32, &file)?;
//!
//! let mut activations = Activations::new();
//! activations.load(&compute, &[127.0; 32], 1, 32);
//! let mut out = [0.0; 2];
//! matmul(&compute, &weights, &activations, &mut out);
//! assert_eq!(out, [4064.0, 8128.0]);
//! # Ok::<(), tapri_kernels::PackError>(())
//! ```

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
mod scan;
mod weights;

pub use activations::{Activations, Keep};
pub use attention::{AttnScratch, attention};
pub use compute::Compute;
pub use elementwise::{
    RopeConfig, RopeStyle, RopeTable, add, add_to_rows, gelu_mul, log_sum_exp, rms_norm,
    rms_norm_heads, rope, scale, silu_mul,
};
pub use isa::{ISA_VARIABLE, Isa, IsaError};
pub use kvstore::{
    KvLayout, KvStore, KvStoreError, KvType, KvTypeError, SeqRows, TILE_TOKENS, write_kv,
};
pub use matmul::{matmul, matmul_pairs};
pub use pool::Pool;
pub use quant::{Quant, dequantise};
pub use scan::{SCAN_LANES, SCAN_WIDEST, scan_i8};
pub use weights::{PackError, Weights};
