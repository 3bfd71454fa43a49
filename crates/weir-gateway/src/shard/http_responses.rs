//! Responses over HTTP: to requests of SDKs and of clients that get events.

use weir_fanout::events::EventForm;
use weir_net::http1::{HttpRequest, Response};
use weir_tlcp::codes::{ControlCode, SessionCode};

use super::responses::{RequestTransport, ResponseBatch};
use super::socket_end;
use super::wire::Wire;

/// Adds CORS headers. Without them browsers hide the response, and the SDK would retry forever.
pub(super) fn with_cors(response: Response, origin: Option<&str>) -> Response {
    match origin {
        Some(origin) => response
            .with_header("Access-Control-Allow-Origin", origin)
            .with_header("Access-Control-Allow-Credentials", "true")
            .with_header("Vary", "Origin"),
        None => response,
    }
}

/// Returns the response to a request of a transport.
pub(super) fn response_of(responses: ResponseBatch) -> Response {
    let ResponseBatch {
        transport, lines, ..
    } = responses;
    match (transport, responses.refused) {
        (RequestTransport::ServerSent { origin, .. }, code) => {
            let response = refusal(code.unwrap_or_default(), lines);
            with_cors(response, origin.as_deref())
        }
        (RequestTransport::Http { origin }, _) => tlcp_response(lines, origin.as_deref()),
        (RequestTransport::WebSocket | RequestTransport::Json { .. }, _) => {
            tlcp_response(lines, None)
        }
    }
}

/// Returns the head of a response whose body is a stream; `None` on a WebSocket.
pub(super) fn stream_head(transport: &RequestTransport) -> Option<Response> {
    match transport {
        RequestTransport::WebSocket | RequestTransport::Json { .. } => None,
        RequestTransport::Http { origin } => Some(tlcp_response(Vec::new(), origin.as_deref())),
        RequestTransport::ServerSent { origin, .. } => Some(Response {
            content_type: "text/event-stream",
            ..tlcp_response(Vec::new(), origin.as_deref())
        }),
    }
}

/// Returns lines as a response. Without lines it is the head of a streamed response.
fn tlcp_response(lines: Vec<u8>, origin: Option<&str>) -> Response {
    let response = Response::text(200, lines)
        .with_header("Cache-Control", "no-store, no-cache, no-transform")
        .with_header("Pragma", "no-cache")
        // Otherwise browsers buffer the first kilobyte of a stream for content sniffing.
        .with_header("X-Content-Type-Options", "nosniff")
        // Proxies must not buffer a stream.
        .with_header("X-Accel-Buffering", "no");
    with_cors(response, origin)
}

/// Sends response lines to deferred requests. Returns `false` if the
/// connection does not accept them.
pub(super) fn send_response(wire: &mut impl Wire, responses: ResponseBatch) -> bool {
    let conn = responses.conn;
    if responses.transport == RequestTransport::WebSocket {
        return responses.lines.is_empty() || wire.send_text(conn, &responses.lines);
    }
    if responses.transport.event_form() == Some(EventForm::Json) {
        if let Some(code) = responses.refused {
            let text = String::from_utf8_lossy(&responses.lines);
            socket_end::close(wire, conn, code, text.trim_end());
        }
        return true;
    }
    wire.respond(conn, &response_of(responses));
    true
}

pub(super) fn preflight(request: &HttpRequest<'_>, methods: &str) -> Response {
    let response = Response::text(204, "")
        .with_header("Access-Control-Allow-Methods", methods)
        .with_header("Access-Control-Max-Age", "600");
    match request.header("access-control-request-headers") {
        Some(headers) => response.with_header("Access-Control-Allow-Headers", headers),
        None => response,
    }
}

/// Returns the response to a request that is refused with a code of TLCP.
fn refusal(code: i32, text: Vec<u8>) -> Response {
    let response = Response::text(status(code), text);
    match response.status {
        503 => response.with_header("Retry-After", "1"),
        _ => response,
    }
}

fn status(code: i32) -> u16 {
    const RETRY_LATER: i32 = SessionCode::RETRY_LATER.code();
    const OVERLOADED: i32 = SessionCode::OVERLOADED.code();
    const BAD_DATA_ADAPTER: i32 = ControlCode::BAD_DATA_ADAPTER.code();
    const BAD_GROUP: i32 = ControlCode::BAD_GROUP.code();
    match code {
        1 => 401,
        ..=0 => 403,
        BAD_DATA_ADAPTER | BAD_GROUP => 404,
        RETRY_LATER | OVERLOADED => 503,
        _ => 400,
    }
}
