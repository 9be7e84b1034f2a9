//! The trait Backend, and the embedded engine behind it.
