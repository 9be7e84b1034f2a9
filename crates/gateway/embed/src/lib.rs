//! Sentence embeddings: MiniLM in this process.
