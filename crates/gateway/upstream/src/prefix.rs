//! Help for the prefix caches of upstreams: what a prompt's start is, who has it, and what to ask of a provider.
//!
//! Map: [`walk`] a prompt as a chain of hashes; [`index`] which replica has seen which start; [`choice`] which replica to
//! take; [`salt`] vLLM's `cache_salt`; [`key`] OpenAI's `prompt_cache_key`; [`markers`] Anthropic's `cache_control`;
//! [`rules`] what providers promise, as dated data; [`calibration`] whether predictions come true.

pub mod calibration;
pub mod choice;
pub mod index;
pub mod key;
pub mod markers;
pub mod rules;
pub mod salt;
pub mod walk;
