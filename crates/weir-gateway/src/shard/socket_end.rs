//! Ends of WebSockets whose clients get JSON: the last event and the close code.

use weir_fanout::events::{EventForm, EventNotice, push_notice};
use weir_net::server::ConnId;
use weir_tlcp::codes::SessionCode;

use super::frame::Framing;
use super::wire::Wire;

/// Close codes of WebSockets (RFC 6455 and its registry).
const CLOSE_NORMAL: u16 = 1000;
const CLOSE_GOING_AWAY: u16 = 1001;
const CLOSE_POLICY: u16 = 1008;
const CLOSE_TRY_AGAIN: u16 = 1013;

/// Returns the code with which a WebSocket is closed after an `end` event.
pub(super) fn close_code(code: i32) -> u16 {
    const RETRY_LATER: i32 = SessionCode::RETRY_LATER.code();
    const OVERLOADED: i32 = SessionCode::OVERLOADED.code();
    const EXPIRED: i32 = SessionCode::EXPIRED.code();
    const BY_CLIENT: i32 = SessionCode::DESTROYED_BY_CLIENT.code();
    match code {
        RETRY_LATER | OVERLOADED => CLOSE_TRY_AGAIN,
        EXPIRED => CLOSE_GOING_AWAY,
        BY_CLIENT => CLOSE_NORMAL,
        _ => CLOSE_POLICY,
    }
}

/// Closes a WebSocket that has no session.
pub(super) fn close(wire: &mut impl Wire, conn: ConnId, code: i32, text: &str) {
    let mut last = Vec::new();
    push_notice(&mut last, EventForm::Json, EventNotice::End(code, text));
    let last = Framing::WebSocket.frame(&last);
    wire.close_with(conn, close_code(code), Some(last), false);
}
