//! TLCP over HTTP: WebSocket upgrades, requests and their responses, and streams in response
//! bodies.

use weir_net::http1::{HttpRequest, Response};
use weir_net::server::{ConnId, RequestOutcome};
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{Request, parse_http_request};
use weir_tlcp::server::{write_conerr, write_error};
use weir_tlcp::{PATH_PREFIX, Version, WEBSOCKET_SUBPROTOCOL};

use super::dialect::Dialect;
use super::event_clients;
use super::event_sockets;
use super::http_responses::{preflight, response_of, with_cors};
use super::responses::{MessageOutcome, RequestTransport, ResponseBatch};
use super::state::Shard;
use super::wire::Wire;

pub(super) fn respond(
    shard: &mut Shard,
    wire: &mut impl Wire,
    conn: ConnId,
    request: &HttpRequest<'_>,
) -> RequestOutcome {
    if request.path == event_clients::SSE_PATH {
        return event_clients::respond(shard, wire, conn, request);
    }
    if request.path == event_sockets::WS_PATH {
        return event_sockets::upgrade(shard, wire, conn, request);
    }
    let response = match request.path.strip_prefix(PATH_PREFIX) {
        Some("" | "/") if shard.clients.is_draining() => {
            Response::text(503, "the gateway is shutting down\n")
        }
        Some("" | "/") => return upgrade(shard, wire, conn, request),
        Some(rest) => match rest
            .strip_prefix('/')
            .and_then(|rest| rest.strip_suffix(".txt"))
        {
            Some(_) if request.method == "OPTIONS" => preflight(request, "GET, POST"),
            Some(name) if matches!(request.method, "POST" | "GET") => {
                return tlcp(shard, wire, conn, name, request);
            }
            Some(_) => Response::text(405, "use POST\n").with_header("Allow", "GET, POST"),
            None => Response::text(404, "no such path\n"),
        },
        None => Response::text(
            404,
            "no such path; clients connect to /lightstreamer, /sse or /ws\n",
        ),
    };
    RequestOutcome::Respond(with_cors(response, request.header("origin")))
}

fn upgrade(
    shard: &mut Shard,
    wire: &mut impl Wire,
    conn: ConnId,
    request: &HttpRequest<'_>,
) -> RequestOutcome {
    if !request.is_websocket_upgrade() {
        let text = "this path requires a WebSocket with subprotocol TLCP-2.5.0.lightstreamer.com\n";
        let response = Response::text(426, text).with_header("Upgrade", "websocket");
        return RequestOutcome::Respond(with_cors(response, request.header("origin")));
    }
    if let Some(version) = Version::offered(request.list("sec-websocket-protocol")) {
        let dialect = Dialect::of(version, request.header("user-agent"));
        shard.dialects.insert(conn, dialect);
        shard.note_credentials(wire, conn, request, true);
        return RequestOutcome::Upgrade {
            protocol: Some(version.subprotocol()),
            deflate: shard.clients.shared.compression.enabled,
        };
    }
    let text = format!("unsupported WebSocket subprotocol: use {WEBSOCKET_SUBPROTOCOL}\n");
    RequestOutcome::Respond(Response::text(400, text))
}

fn tlcp(
    shard: &mut Shard,
    wire: &mut impl Wire,
    conn: ConnId,
    name: &str,
    request: &HttpRequest<'_>,
) -> RequestOutcome {
    // Over HTTP, each request has its own version.
    let dialect = Dialect::of(Version::NEWEST, request.header("user-agent"));
    shard.dialects.insert(conn, dialect);
    shard.note_credentials(wire, conn, request, name == "create_session");
    let origin = request.header("origin").map(Box::from);
    let buffer = std::mem::take(&mut shard.response_buffer);
    let mut responses = ResponseBatch::on(conn, RequestTransport::Http { origin }, buffer);
    // An empty body means that the query has the parameters.
    responses.in_url = request.body.trim_ascii().is_empty();
    let mut outcome = MessageOutcome::Respond;
    match std::str::from_utf8(&request.body) {
        Ok(body) => parse_http_request(name, request.query, body, &mut |parsed| {
            if outcome == MessageOutcome::Respond {
                if let (Ok(Request::CreateSession(_) | Request::BindSession(_)), false) =
                    (&parsed, request.accepts_chunks)
                {
                    let text = "sessions require HTTP/1.1 from clients and proxies";
                    shard.clients.counters.sessions_refused += 1;
                    write_conerr(&mut responses.lines, SessionCode::MALFORMED, text);
                } else {
                    outcome = shard.handle_parsed(wire, parsed, &mut responses);
                }
            }
        }),
        Err(_) => {
            let text = "the request is not UTF-8";
            write_error(&mut responses.lines, ControlCode::MALFORMED, text);
        }
    }
    if !responses.remote.is_empty() {
        let client = shard.client_of(wire, conn);
        shard.forwarding.forward(responses, client);
        return RequestOutcome::Defer;
    }
    match outcome {
        MessageOutcome::Respond => RequestOutcome::Respond(response_of(responses)),
        _ => {
            shard.response_buffer = responses.lines;
            RequestOutcome::Defer
        }
    }
}
