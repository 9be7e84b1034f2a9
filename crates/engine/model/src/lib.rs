//! One configurable decoder over a paged KV cache.
