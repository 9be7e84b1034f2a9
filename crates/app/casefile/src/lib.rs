//! Documents to text, the prompt's layout, sessions of questions.
