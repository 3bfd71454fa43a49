//! Plain HTTP on the data port: the WebSocket upgrade, and answers that send an SDK back to it.
//!
//! Streams live on WebSockets in this version. SDKs ask for recovery over HTTP whatever their
//! transport was, so the endpoints exist: "session not found" makes them start a fresh session at
//! once instead of retrying for seconds. A session may be created over HTTP, to be bound on a
//! WebSocket: SDKs do so for good once a WebSocket could not be opened.

use std::time::Instant;

use weir_net::http1::{HttpRequest, Response};
use weir_net::server::Answer;
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{BindSession, CreateSession, Request, parse_http_request};
use weir_tlcp::server::{
    SessionId, write_conerr, write_error, write_reqerr, write_reqok, write_unbound,
};
use weir_tlcp::{PATH_PREFIX, WEBSOCKET_SUBPROTOCOL};

use super::Shard;
use super::requests::TOO_MANY;
use super::waiting::Waiting;

const HTTP_STREAMS: &str = "this gateway serves streams over WebSocket only";

/// Answers one request on the data port.
pub(super) fn answer(shard: &mut Shard, request: &HttpRequest<'_>) -> Answer {
    let origin = request.header("origin");
    let response = match request.path.strip_prefix(PATH_PREFIX) {
        Some("" | "/") if shard.draining => Response::text(503, "the gateway is shutting down\n"),
        Some("" | "/") => return upgrade(request),
        Some(rest) => match rest
            .strip_prefix('/')
            .and_then(|rest| rest.strip_suffix(".txt"))
        {
            Some(_) if request.method == "OPTIONS" => preflight(request),
            Some(name) => tlcp(shard, name, request),
            None => Response::text(404, "no such path\n"),
        },
        None => Response::text(404, "no such path; clients connect to /lightstreamer\n"),
    };
    Answer::Reply(match origin {
        // Browsers hide an answer without this header, and the SDK would retry for ever.
        Some(origin) => response
            .with_header("Access-Control-Allow-Origin", origin)
            .with_header("Access-Control-Allow-Credentials", "true")
            .with_header("Vary", "Origin"),
        None => response,
    })
}

fn upgrade(request: &HttpRequest<'_>) -> Answer {
    if !request.wants_websocket() {
        let text = "this path speaks WebSocket with subprotocol TLCP-2.5.0.lightstreamer.com\n";
        return Answer::Reply(Response::text(426, text).with_header("Upgrade", "websocket"));
    }
    if request
        .list("sec-websocket-protocol")
        .any(|offered| offered == WEBSOCKET_SUBPROTOCOL)
    {
        return Answer::WebSocket {
            protocol: Some(WEBSOCKET_SUBPROTOCOL),
        };
    }
    let text = format!("offer the WebSocket subprotocol {WEBSOCKET_SUBPROTOCOL}\n");
    Answer::Reply(Response::text(400, text))
}

fn preflight(request: &HttpRequest<'_>) -> Response {
    let response = Response::text(204, "")
        .with_header("Access-Control-Allow-Methods", "GET, POST")
        .with_header("Access-Control-Max-Age", "600");
    match request.header("access-control-request-headers") {
        Some(headers) => response.with_header("Access-Control-Allow-Headers", headers),
        None => response,
    }
}

fn tlcp(shard: &mut Shard, name: &str, request: &HttpRequest<'_>) -> Response {
    if !matches!(request.method, "POST" | "GET") {
        return Response::text(405, "use POST\n").with_header("Allow", "GET, POST");
    }
    let mut out = Vec::new();
    match std::str::from_utf8(request.body) {
        Ok(body) => parse_http_request(name, request.query, body, &mut |parsed| match parsed {
            Ok(request) => respond(shard, &request, &mut out),
            Err(error) => error.write(&mut out),
        }),
        Err(_) => write_error(&mut out, ControlCode::MALFORMED, "the request is not UTF-8"),
    }
    Response::text(200, out)
        .with_header("Cache-Control", "no-store, no-cache, no-transform")
        .with_header("Pragma", "no-cache")
}

fn respond(shard: &mut Shard, request: &Request<'_>, out: &mut Vec<u8>) {
    let request_id = match request {
        Request::CreateSession(request) => return create(shard, request, out),
        Request::BindSession(request) => return bind(shard, request, out),
        Request::Heartbeat(_) => return write_reqok(out, None),
        Request::Wsok => return write_error(out, ControlCode::MALFORMED, "wsok is for WebSocket"),
        Request::Control(control) => control.request_id.as_deref(),
        Request::Message(message) => message.request_id.as_deref(),
    };
    let code = ControlCode::SESSION_NOT_FOUND;
    match request_id {
        Some(id) => write_reqerr(out, id, code, code.text()),
        None => write_error(out, ControlCode::MALFORMED, code.text()),
    }
}

/// An SDK creates a session over HTTP by a poll that ends at once, and binds it afterwards.
fn create(shard: &mut Shard, create: &CreateSession<'_>, out: &mut Vec<u8>) {
    let id = SessionId::from_random(&rand::random());
    let admitted = if create.stream.polling.is_none() {
        Err((SessionCode::PORT_FORBIDDEN, HTTP_STREAMS.into()))
    } else if !create.controls.is_empty() {
        let text = "subscribe on the WebSocket that binds the session";
        Err((SessionCode::COMBO_CONTROL_FAILED, text.into()))
    } else {
        shard.may_create(create).and_then(|set| {
            let room = &shard.shared.waiting;
            match room.admit(id, Waiting::New(set), Instant::now()) {
                true => Ok(()),
                false => Err((SessionCode::RETRY_LATER, TOO_MANY.into())),
            }
        })
    };
    match admitted {
        Ok(()) => write_unbound(&id, &shard.shared.session, out),
        Err((code, text)) => {
            shard.counters.sessions_refused += 1;
            write_conerr(out, code, &text);
        }
    }
}

/// Only the first bind of a session that waits is told that HTTP is the wrong place; whatever else
/// is asked for is gone, and an SDK then starts afresh.
fn bind(shard: &Shard, bind: &BindSession<'_>, out: &mut Vec<u8>) {
    let id = bind.session.as_deref().unwrap_or_default();
    if bind.recovery_from.is_none() && shard.shared.waiting.has(id, Instant::now()) {
        return write_conerr(out, SessionCode::PORT_FORBIDDEN, HTTP_STREAMS);
    }
    let code = SessionCode::SESSION_NOT_FOUND;
    write_conerr(out, code, code.text());
}
