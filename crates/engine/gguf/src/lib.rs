//! Reads GGUF through a memory map, hostile input included.
