//! Network operations that a shard uses. Tests replace them.

use std::net::IpAddr;

use bytes::Bytes;
use weir_net::http1::Response;
use weir_net::server::{ConnId, ServerIo, TrySend};
use weir_net::websocket::DeflateWindow;

use super::frame::message;

/// Connection id that no connection has.
pub(super) const NO_CONNECTION: ConnId = ConnId::from_parts(u32::MAX, 0);

/// Connections and timers; see [`ServerIo`] for the operations.
pub(super) trait Wire {
    fn now_ms(&self) -> u64;
    fn send(&mut self, conn: ConnId, chunk: Bytes) -> bool;
    fn try_send(&mut self, conn: ConnId, chunk: Bytes) -> TrySend;
    fn notify_writable(&mut self, conn: ConnId);
    fn close(&mut self, conn: ConnId, last: Option<Bytes>, drop_queued: bool);
    fn begin_body(&mut self, conn: ConnId, head: &Response);
    fn finish(&mut self, conn: ConnId);
    fn respond(&mut self, conn: ConnId, response: &Response);
    fn detach(&mut self, conn: ConnId);
    fn pause_input(&mut self, conn: ConnId);
    fn resume_input(&mut self, conn: ConnId);
    fn tag(&mut self, conn: ConnId) -> Option<u64>;
    fn set_tag(&mut self, conn: ConnId, tag: u64);
    fn set_timer(&mut self, at_ms: u64, token: u64);
    fn peer_ip(&mut self, conn: ConnId) -> Option<IpAddr>;
    fn admission_id(&mut self, conn: ConnId) -> u32;
    fn deflate_window(&mut self, conn: ConnId) -> Option<DeflateWindow>;

    /// Queues lines as one WebSocket message.
    fn send_text(&mut self, conn: ConnId, text: &[u8]) -> bool {
        self.send(conn, message(text))
    }
}

impl Wire for ServerIo {
    fn now_ms(&self) -> u64 {
        self.now_ms()
    }

    fn send(&mut self, conn: ConnId, chunk: Bytes) -> bool {
        self.send(conn, chunk)
    }

    fn try_send(&mut self, conn: ConnId, chunk: Bytes) -> TrySend {
        self.try_send(conn, chunk)
    }

    fn notify_writable(&mut self, conn: ConnId) {
        self.notify_writable(conn);
    }

    fn close(&mut self, conn: ConnId, last: Option<Bytes>, drop_queued: bool) {
        self.close(conn, last, drop_queued);
    }

    fn begin_body(&mut self, conn: ConnId, head: &Response) {
        self.begin_body(conn, head);
    }

    fn finish(&mut self, conn: ConnId) {
        self.finish(conn);
    }

    fn respond(&mut self, conn: ConnId, response: &Response) {
        self.respond(conn, response);
    }

    fn detach(&mut self, conn: ConnId) {
        self.detach(conn);
    }

    fn pause_input(&mut self, conn: ConnId) {
        self.pause_input(conn);
    }

    fn resume_input(&mut self, conn: ConnId) {
        self.resume_input(conn);
    }

    fn tag(&mut self, conn: ConnId) -> Option<u64> {
        self.tag(conn)
    }

    fn set_tag(&mut self, conn: ConnId, tag: u64) {
        self.set_tag(conn, tag);
    }

    fn set_timer(&mut self, at_ms: u64, token: u64) {
        self.set_timer(at_ms, token);
    }

    fn peer_ip(&mut self, conn: ConnId) -> Option<IpAddr> {
        self.peer(conn).map(|peer| peer.ip())
    }

    fn admission_id(&mut self, conn: ConnId) -> u32 {
        self.admission_id(conn)
    }

    fn deflate_window(&mut self, conn: ConnId) -> Option<DeflateWindow> {
        self.deflate_window(conn)
    }
}
