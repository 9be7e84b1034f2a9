//! The exact cache: the same request of the same tenant gets the same answer, and nothing is forwarded.
