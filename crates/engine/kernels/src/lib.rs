//! Quantised matmul, paged attention, norms and RoPE: the only SIMD.
