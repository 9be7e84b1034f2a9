//! Continuous batching, chunked prefill and sampling over the paged KV cache.
