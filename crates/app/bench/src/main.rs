//! Measures an OpenAI-compatible server with sessions of questions.
fn main() {}
