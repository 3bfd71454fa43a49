//! Event loops, timers, HTTP/1.1 and WebSocket framing, both ends.

pub mod websocket;
