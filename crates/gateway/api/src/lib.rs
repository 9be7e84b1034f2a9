//! Wire formats of the served APIs, their validation and errors, and the internal call.
