//! What the decoder promises, held against tiny random models and against llama.cpp's results on two real ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adapter_golden;
mod adapters;
mod configs;
mod errors;
mod golden;
mod hostile;
mod identity;
mod kv_types;
mod notes;
mod real_hit;
mod runner;
mod transformers;
