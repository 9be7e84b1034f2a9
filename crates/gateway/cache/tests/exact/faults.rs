//! Stores that fail.
