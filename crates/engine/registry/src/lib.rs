//! Names of models, and the pull that brings and checks their files.
