//! Stores behind memory.
