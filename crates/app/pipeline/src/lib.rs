//! One call's way through the caches to a backend.
