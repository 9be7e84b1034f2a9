//! HTTP routes, metrics and limits.
