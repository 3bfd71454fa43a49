//! Parses WebSocket messages and HTTP requests. Both consist of lines, each of which results in a
//! request or an error.
//!
//! Unescaped spaces and non-ASCII characters, a trailing `&` and trailing empty lines are accepted;
//! line feeds without carriage return are not. The transport limits the size of a message.

use std::borrow::Cow;

use memchr::memmem;

use super::params::LineParams;
use super::{
    BindSession, Control, ControlOp, CreateSession, Heartbeat, Message, Request, SessionRef,
};
use crate::codes::{ControlCode, SessionCode};
use crate::error::{ErrorLine, RequestError, RequestFault, shortened};
use crate::{PROTOCOL, Version};

/// Receiver of the results.
type Sink<'s, 'a> = &'s mut dyn FnMut(Result<Request<'a>, RequestError>);

/// Parses one WebSocket message: the name of a request, then one line or a batch of lines. Calls
/// `sink` once per line, in order.
pub fn parse_ws_message<'a>(
    text: &'a str,
    sink: &mut dyn FnMut(Result<Request<'a>, RequestError>),
) {
    let (name, body) = text.split_once("\r\n").unwrap_or((text, ""));
    if name == "wsok" && body.is_empty() {
        return sink(Ok(Request::Wsok));
    }
    parse_named(
        name,
        body,
        &Defaults {
            version: None,
            session: None,
            session_needed: false,
        },
        sink,
    );
}

/// Parses one HTTP request. `name` is the last part of the path without `.txt`.
///
/// `LS_protocol` must be in the query. `LS_session` in the query is the default for all lines of
/// the body. With an empty body, the query is the parameter line (`GET`).
pub fn parse_http_request<'a>(
    name: &str,
    query: &'a str,
    body: &'a str,
    sink: &mut dyn FnMut(Result<Request<'a>, RequestError>),
) {
    let params = LineParams::parse(query);
    let Some(protocol) = params.text("LS_protocol") else {
        return sink(Err(request_error(
            name,
            RequestFault::missing("LS_protocol"),
        )));
    };
    let Some(version) = Version::named(&protocol) else {
        return sink(Err(wrong_protocol(name, &protocol)));
    };
    let defaults = Defaults {
        version: Some(version),
        session: params.session("LS_session"),
        session_needed: true,
    };
    let body = if body.bytes().all(|byte| matches!(byte, b'\r' | b'\n')) {
        query
    } else {
        body
    };
    parse_named(name, body, &defaults, sink);
}

/// Values from the query of an HTTP request; they apply to lines without their own.
struct Defaults<'a> {
    version: Option<Version>,
    session: Option<SessionRef<'a>>,
    /// `true` if a request without a session is an error.
    session_needed: bool,
}

/// Parses the body of the request `name`.
fn parse_named<'a>(name: &str, body: &'a str, defaults: &Defaults<'a>, sink: Sink<'_, 'a>) {
    let mut body = body;
    while let Some(shorter) = body.strip_suffix("\r\n") {
        body = shorter;
    }
    match name {
        "create_session" => sink(create_session(body, defaults)),
        "bind_session" => sink(bind_session(body, defaults)),
        "heartbeat" => sink(heartbeat(body, defaults)),
        "control" if !body.is_empty() => {
            lines(body).for_each(|line| sink(control(line, defaults)));
        }
        "msg" if !body.is_empty() => lines(body).for_each(|line| sink(message(line, defaults))),
        other => sink(Err(request_error(
            other,
            RequestFault::with_standard_text(ControlCode::MALFORMED),
        ))),
    }
}

fn create_session<'a>(body: &'a str, defaults: &Defaults<'a>) -> Result<Request<'a>, RequestError> {
    let fail = |fault| RequestError::new(ErrorLine::ConErr, fault);
    let mut lines = lines(body);
    let mut params = LineParams::parse(lines.next().unwrap_or(""));
    params.check().map_err(fail)?;
    let mut create = CreateSession::read(&params).map_err(fail)?;
    create.version = defaults.version;
    if params.text("LS_op").is_some() {
        create
            .controls
            .push(combo_control(&mut params).map_err(fail)?);
    }
    for line in lines {
        create
            .controls
            .push(combo_control(&mut LineParams::parse(line)).map_err(fail)?);
    }
    Ok(Request::CreateSession(create))
}

/// Reads a control request that a client sent as a part of `create_session`. Ignores its
/// `LS_reqId`, `LS_session` and `LS_ack`. Any error refuses the whole request with code 64.
fn combo_control<'a>(params: &mut LineParams<'a>) -> Result<Control<'a>, RequestFault> {
    let failed = |fault: RequestFault| {
        let code = SessionCode::COMBO_CONTROL_FAILED;
        RequestFault::session(code, format!("{}: {}", code.text(), fault.message))
    };
    params.check().map_err(failed)?;
    let op = ControlOp::read(params).map_err(failed)?;
    Ok(Control {
        session: None,
        request_id: None,
        ack: false,
        cause: None,
        op,
    })
}

fn bind_session<'a>(body: &'a str, defaults: &Defaults<'a>) -> Result<Request<'a>, RequestError> {
    let fail = |fault| RequestError::new(ErrorLine::ConErr, fault);
    // This request has a single line, so `check` rejects a CR LF in the body.
    let mut params = LineParams::parse(body);
    params.check().map_err(fail)?;
    let mut bind = BindSession::read(&params).map_err(fail)?;
    bind.version = defaults.version;
    bind.session = bind.session.or_else(|| defaults.session.clone());
    if bind.session.is_none() && defaults.session_needed {
        let code = SessionCode::SESSION_NOT_FOUND;
        return Err(fail(RequestFault::session(code, code.text())));
    }
    Ok(Request::BindSession(bind))
}

fn heartbeat<'a>(body: &'a str, defaults: &Defaults<'a>) -> Result<Request<'a>, RequestError> {
    // This request has a single line, so `check` rejects a CR LF in the body.
    let mut params = LineParams::parse(body);
    params
        .check()
        .map_err(|fault| RequestError::new(ErrorLine::Error, fault))?;
    let session = params
        .session("LS_session")
        .or_else(|| defaults.session.clone());
    Ok(Request::Heartbeat(Heartbeat { session }))
}

fn control<'a>(line: &'a str, defaults: &Defaults<'a>) -> Result<Request<'a>, RequestError> {
    with_request_id(line, defaults, |params, session, id| {
        Ok(Request::Control(Control {
            session,
            request_id: Some(id),
            ack: params.flag("LS_ack", true)?,
            cause: params.text("LS_cause"),
            op: ControlOp::read(params)?,
        }))
    })
}

fn message<'a>(line: &'a str, defaults: &Defaults<'a>) -> Result<Request<'a>, RequestError> {
    with_request_id(line, defaults, |params, session, id| {
        let message = Message::read(params, id)?;
        Ok(Request::Message(Message { session, ..message }))
    })
}

/// Reads a line with a request id, which is also a part of its error lines.
fn with_request_id<'a>(
    line: &'a str,
    defaults: &Defaults<'a>,
    read: impl FnOnce(
        &LineParams<'a>,
        Option<SessionRef<'a>>,
        Cow<'a, str>,
    ) -> Result<Request<'a>, RequestFault>,
) -> Result<Request<'a>, RequestError> {
    let mut params = LineParams::parse(line);
    let id = request_id(&mut params)?;
    let checked = params.check().and_then(|()| session(&params, defaults));
    let request = checked.and_then(|session| read(&params, session, id.clone()));
    request.map_err(|fault| RequestError::new(ErrorLine::ReqErr(id.into()), fault))
}

/// Returns the request id, or an error with an `ERROR` line if there is no valid one.
fn request_id<'a>(params: &mut LineParams<'a>) -> Result<Cow<'a, str>, RequestError> {
    let error = |fault| RequestError::new(ErrorLine::Error, fault);
    match params.filled("LS_reqId") {
        Some(id) if id.bytes().all(|byte| byte.is_ascii_alphanumeric()) => Ok(id),
        Some(id) => Err(error(RequestFault::bad_value("LS_reqId", &id))),
        // An error of the whole line is more specific than a missing parameter.
        None => {
            params.check().map_err(error)?;
            Err(error(RequestFault::missing("LS_reqId")))
        }
    }
}

/// Returns the session of a line, or an error if it has none but needs one.
fn session<'a>(
    params: &LineParams<'a>,
    defaults: &Defaults<'a>,
) -> Result<Option<SessionRef<'a>>, RequestFault> {
    let session = params
        .session("LS_session")
        .or_else(|| defaults.session.clone());
    if session.is_none() && defaults.session_needed {
        return Err(RequestFault::with_standard_text(
            ControlCode::SESSION_NOT_FOUND,
        ));
    }
    Ok(session)
}

/// Returns the lines of a body, which CR LF separates.
fn lines(body: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(body);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(at) = memmem::find(text.as_bytes(), b"\r\n") else {
            rest = None;
            return Some(text);
        };
        rest = Some(&text[at + 2..]);
        Some(&text[..at])
    })
}

/// Returns the error of a whole request: `CONERR` for requests that open a stream connection, else
/// `ERROR`.
fn request_error(name: &str, fault: RequestFault) -> RequestError {
    let line = match name {
        "create_session" | "bind_session" => ErrorLine::ConErr,
        _ => ErrorLine::Error,
    };
    RequestError::new(line, fault)
}

/// Returns the error for an unsupported `LS_protocol`.
fn wrong_protocol(name: &str, protocol: &str) -> RequestError {
    let code = match name {
        "create_session" | "bind_session" => SessionCode::CLIENT_VERSION_UNSUPPORTED.code(),
        _ => ControlCode::MALFORMED.code(),
    };
    let shown = shortened(protocol);
    let message = format!("Protocol {shown} is not served: use {PROTOCOL}").into();
    request_error(name, RequestFault { code, message })
}
