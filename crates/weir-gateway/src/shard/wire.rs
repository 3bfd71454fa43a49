//! Network operations that a shard uses. Tests replace them.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use weir_net::http1::Response;
use weir_net::server::{ConnId, ServerIo, TrySend};
use weir_net::tls::CertificateNames;
use weir_net::websocket::DeflateWindow;

use super::frame::message;

/// Connection id that no connection has.
pub(super) const NO_CONNECTION: ConnId = ConnId::from_parts(u32::MAX, 0);

/// Declares [`Wire`], which [`ServerIo`] implements by its methods of the same names.
macro_rules! wire {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?;)*) => {
        /// Connections and timers; see [`ServerIo`] for the operations.
        pub(super) trait Wire {
            $(fn $name(&mut self $(, $arg: $kind)*) $(-> $out)?;)*
            fn now_ms(&self) -> u64;
            fn peer_ip(&mut self, conn: ConnId) -> Option<IpAddr>;

            /// Returns the Unix time in milliseconds.
            fn unix_ms(&self) -> u64 {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                now.map_or(0, |now| now.as_millis() as u64)
            }

            /// Queues lines as one WebSocket message.
            fn send_text(&mut self, conn: ConnId, text: &[u8]) -> bool {
                self.send(conn, message(text))
            }
        }

        impl Wire for ServerIo {
            $(fn $name(&mut self $(, $arg: $kind)*) $(-> $out)? {
                Self::$name(self $(, $arg)*)
            })*

            fn now_ms(&self) -> u64 {
                self.now_ms()
            }

            fn peer_ip(&mut self, conn: ConnId) -> Option<IpAddr> {
                self.peer(conn).map(|peer| peer.ip())
            }
        }
    };
}

wire! {
    fn send(conn: ConnId, chunk: Bytes) -> bool;
    fn try_send(conn: ConnId, chunk: Bytes) -> TrySend;
    fn notify_writable(conn: ConnId);
    fn close(conn: ConnId, last: Option<Bytes>, drop_queued: bool);
    fn close_with(conn: ConnId, code: u16, last: Option<Bytes>, drop_queued: bool);
    fn begin_body(conn: ConnId, head: &Response);
    fn finish(conn: ConnId);
    fn respond(conn: ConnId, response: &Response);
    fn detach(conn: ConnId);
    fn pause_input(conn: ConnId);
    fn resume_input(conn: ConnId);
    fn tag(conn: ConnId) -> Option<u64>;
    fn set_tag(conn: ConnId, tag: u64);
    fn set_timer(at_ms: u64, token: u64);
    fn admission_id(conn: ConnId) -> u32;
    fn queued_bytes(conn: ConnId) -> usize;
    fn client_names(conn: ConnId) -> Option<CertificateNames>;
    fn deflate_window(conn: ConnId) -> Option<DeflateWindow>;
}
