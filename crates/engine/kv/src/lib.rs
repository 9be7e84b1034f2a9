//! The logical prefix cache: block hashes, pool, index, eviction, expiry.
