//! Ports for servers of a test's own.

use std::net::TcpListener;

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server on a port of its own.
pub fn on_a_free_port<S>(try_start: impl Fn(u16) -> Option<S>) -> S {
    // Another test may have taken the port meanwhile.
    (0..10)
        .find_map(|_| try_start(free_port()))
        .unwrap_or_else(|| panic!("no port could be had ten times in a row"))
}
