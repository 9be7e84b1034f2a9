//! The semantic cache: another question that means the same, asked in the very same circumstances.
