//! One simulated client: upgrade, session, subscription, updates.

use thiserror::Error;
use weir_net::client::DisconnectReason;
use weir_net::http1::{EventStreamReader, StreamEvent};
use weir_net::websocket::{
    FrameError, FrameEvent, FrameRole, HandshakeError, Inflater, Opcode, WebSocketFrameReader,
    parse_server_response, push_client_frame, push_close, push_pong,
};
use weir_tlcp::WEBSOCKET_SUBPROTOCOL;
use weir_tlcp::client::{
    ClientSession, ClientSessionConfig, Line, Lines, SessionEvent, parse_line,
};

use super::json::{JsonEvent, JsonMessages};
use super::options::ClientProtocol;
use super::target::{MASK, RequestTexts, SUB_ID};
use super::verify::ClientCheck;

/// Reason why a connection cannot be used after its first response.
#[derive(Debug, Error)]
enum OpeningError {
    #[error("baseline server did not respond with OK")]
    Baseline,
    #[error("server does not compress (permessage-deflate)")]
    Uncompressed,
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientPhase {
    /// Its connection has not been opened.
    Idle,
    /// Waits for `101`, or the baseline server's `OK`.
    Opening,
    /// Waits for the session and the subscription.
    Subscribing,
    /// Receives updates.
    Live,
    /// Closed for any reason.
    Ended,
}

/// Simulated client. Buffers exist only while input is incomplete.
#[derive(Debug)]
pub(super) struct SimulatedClient {
    pub(super) phase: ClientPhase,
    /// Index of its key.
    pub(super) key: u32,
    /// Accepts no diffs, so that its values serve as reference.
    pub(super) plain: bool,
    reader: WebSocketFrameReader,
    tlcp: ClientSession,
    /// Response with server-sent events, instead of a WebSocket.
    events: Option<Box<EventStreamReader>>,
    /// Incomplete response to the first request: upgrade, `OK`.
    partial: Vec<u8>,
    /// Times of the start and of the last read, in milliseconds of the pool's clock.
    pub(super) started_ms: u32,
    pub(super) last_read_ms: u32,
    /// The missing keepalive was reported; reset by the next read.
    pub(super) is_overdue: bool,
    pub(super) check: ClientCheck,
}

/// Result of input for the client pool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionAction {
    Continue,
    /// The subscription has become active.
    Live,
    /// An update of the item.
    Update,
    /// An error that does not end the session.
    Error(String),
    /// The end of the session.
    End(String),
}

impl SimulatedClient {
    pub(super) fn new(key: u32, plain: bool, check: ClientCheck) -> Self {
        Self {
            phase: ClientPhase::Idle,
            key,
            plain,
            reader: reader(false),
            tlcp: ClientSession::new(),
            events: None,
            partial: Vec::new(),
            started_ms: 0,
            last_read_ms: 0,
            is_overdue: false,
            check,
        }
    }

    /// Appends the bytes to send once the connection is open.
    pub(super) fn open(
        &mut self,
        conn: usize,
        target: &RequestTexts<'_>,
        json: Option<&JsonMessages>,
        out: &mut Vec<u8>,
    ) {
        self.phase = ClientPhase::Opening;
        if let Some(json) = json {
            self.events = json
                .is_event_stream()
                .then(|| Box::new(EventStreamReader::new(MESSAGE_BYTES_MAX)));
            return out.extend_from_slice(json.request(conn, self.key as usize));
        }
        match target.options.kind {
            ClientProtocol::Tlcp { .. } | ClientProtocol::Json(_) => {
                out.extend_from_slice(target.upgrade(conn));
            }
            ClientProtocol::Floor => {
                let key = match target.keyed {
                    true => target.keys[self.key as usize].as_str(),
                    false => "*",
                };
                out.extend_from_slice(key.as_bytes());
                out.push(b'\n');
            }
        }
    }

    /// Returns the keepalive interval of the server in milliseconds; 0 without one.
    pub(super) fn keepalive_ms(&self) -> u64 {
        self.tlcp.keepalive_ms()
    }

    /// Processes received bytes. Calls `io.sink` for each action, with the payload of updates, and
    /// appends the bytes to send to `io.out`. All sessions share `inflater`.
    pub(super) fn on_data(
        &mut self,
        bytes: &[u8],
        io: &mut SessionIo<'_>,
        inflater: &mut Inflater,
    ) {
        if self.events.is_some() {
            return self.on_event_bytes(bytes, io);
        }
        let mut rest = bytes;
        let joined;
        if self.phase == ClientPhase::Opening {
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(bytes);
                joined = std::mem::take(&mut self.partial);
                rest = &joined;
            }
            match self.opening(rest, io) {
                Ok(Some(used)) => rest = &rest[used..],
                Ok(None) => {
                    self.partial = rest.to_vec();
                    return;
                }
                Err(error) => return self.act(SessionAction::End(error.to_string()), io),
            }
            if self.phase == ClientPhase::Live {
                self.act(SessionAction::Live, io);
            }
        }
        self.frames(rest, io, inflater);
    }

    fn act(&mut self, action: SessionAction, io: &mut SessionIo<'_>) {
        (io.sink)(self, action, &[]);
    }

    /// Parses the response to the first request. Returns its length, `None` while it is incomplete.
    fn opening(
        &mut self,
        bytes: &[u8],
        io: &mut SessionIo<'_>,
    ) -> Result<Option<usize>, OpeningError> {
        let options = io.target.options;
        if options.kind == ClientProtocol::Floor {
            return match bytes {
                [b'O', b'K', b'\n', ..] => {
                    self.phase = ClientPhase::Live;
                    Ok(Some(3))
                }
                b"" | b"O" | b"OK" => Ok(None),
                _ => Err(OpeningError::Baseline),
            };
        }
        let (key, deflate) = (&io.target.websocket_key, options.compression);
        let subprotocol = match io.json {
            Some(_) => "",
            None => WEBSOCKET_SUBPROTOCOL,
        };
        let opened = parse_server_response(bytes, key, subprotocol, deflate)?;
        let Some(opened) = opened else {
            return Ok(None);
        };
        if deflate && !opened.deflate {
            return Err(OpeningError::Uncompressed);
        }
        self.reader = reader(deflate);
        match &io.json {
            Some(json) => self.phase = subscribing(json.opened(self.key as usize, io.out)),
            None => {
                self.phase = ClientPhase::Subscribing;
                self.send_pending(io);
            }
        }
        Ok(Some(opened.bytes))
    }

    /// Reads a response with server-sent events.
    fn on_event_bytes(&mut self, bytes: &[u8], io: &mut SessionIo<'_>) {
        let Some(mut events) = self.events.take() else {
            return;
        };
        let read = events.read(bytes, &mut |event| match event {
            StreamEvent::Open => {
                let json = io.json.as_ref();
                let is_live = json.is_some_and(|json| json.opened(self.key as usize, io.out));
                self.phase = subscribing(is_live);
                if is_live {
                    self.act(SessionAction::Live, io);
                }
            }
            StreamEvent::Data(data) => self.message(data, io),
        });
        self.events = Some(events);
        if let Err(end) = read {
            self.act(SessionAction::End(end.to_string()), io);
        }
    }

    /// Reads a message of a protocol with JSON.
    fn json_message(
        &mut self,
        message: &[u8],
        json: &mut JsonMessages,
        (out, sink): (&mut Vec<u8>, SessionSink<'_>),
    ) {
        let state = (self.key as usize, self.phase == ClientPhase::Live);
        json.message(state, message, out, &mut |event| match event {
            JsonEvent::Live => {
                self.phase = ClientPhase::Live;
                sink(self, SessionAction::Live, &[]);
            }
            JsonEvent::Update(values) if self.phase == ClientPhase::Live => {
                sink(self, SessionAction::Update, values);
            }
            // From before the subscription was confirmed: not part of any measurement.
            JsonEvent::Update(_) => {}
            JsonEvent::End(reason) => sink(self, SessionAction::End(reason), &[]),
        });
    }

    fn frames(&mut self, bytes: &[u8], io: &mut SessionIo<'_>, inflater: &mut Inflater) {
        // Moved out, because the events borrow from it while the session is used.
        let mut reader = std::mem::replace(&mut self.reader, reader(false));
        let mut rest = bytes;
        while self.phase != ClientPhase::Ended {
            let event = match reader.read(rest) {
                Ok((used, Some(event))) => {
                    rest = &rest[used..];
                    event
                }
                Ok((_, None)) => break,
                Err(error) => {
                    self.on_frame_error(error, io);
                    break;
                }
            };
            match event {
                FrameEvent::Text(message) => self.message(message, io),
                FrameEvent::Deflated(payload) => {
                    match inflater.inflate(payload, MESSAGE_BYTES_MAX) {
                        Ok(message) => self.message(message, io),
                        Err(error) => self.on_frame_error(error, io),
                    }
                }
                FrameEvent::Ping(payload) => push_pong(io.out, Some(MASK), payload),
                FrameEvent::Pong(_) => {}
                FrameEvent::Close { code } => {
                    push_close(io.out, Some(MASK), code.unwrap_or(1000));
                    let code = code.map_or_else(|| "no code".to_owned(), |code| code.to_string());
                    let text = format!("websocket closed by the server: {code}");
                    self.act(SessionAction::End(text), io);
                }
            }
        }
        self.reader = reader;
    }

    /// Closes the session because the server violated the WebSocket protocol.
    fn on_frame_error(&mut self, error: FrameError, io: &mut SessionIo<'_>) {
        push_close(io.out, Some(MASK), error.close_code());
        self.act(SessionAction::End(error.to_string()), io);
    }

    fn message(&mut self, message: &[u8], io: &mut SessionIo<'_>) {
        if let Some(json) = io.json.as_deref_mut() {
            return self.json_message(message, json, (io.out, io.sink));
        }
        let mut lines = Lines::new(message);
        while self.phase != ClientPhase::Ended {
            let Some(line) = lines.next() else { break };
            self.line(line, io);
        }
        if !lines.remainder().is_empty() && self.phase != ClientPhase::Ended {
            let text = "message that does not end in CR LF".to_owned();
            self.act(SessionAction::Error(text), io);
        }
    }

    fn line(&mut self, line: &[u8], io: &mut SessionIo<'_>) {
        let line = match parse_line(line) {
            // Fast path: nearly all lines are updates, which need no session logic.
            Ok(Line::Update {
                sub_id: SUB_ID,
                item: 1,
                payload,
            }) if self.phase == ClientPhase::Live => {
                return (io.sink)(self, SessionAction::Update, payload);
            }
            Ok(Line::Update { .. }) => {
                let text = "update of an item that was not subscribed".to_owned();
                return self.act(SessionAction::Error(text), io);
            }
            Ok(line) => line,
            Err(error) => return self.act(SessionAction::Error(error.to_string()), io),
        };
        let Some(config) = io.config else {
            let text = "baseline server sent more than updates".to_owned();
            return self.act(SessionAction::Error(text), io);
        };
        let action = self.tlcp_event(&line, config, io.target.fields.count);
        self.send_pending(io);
        if action != SessionAction::Continue {
            self.act(action, io);
        }
    }

    /// Handles a line; `expected` is the number of fields.
    fn tlcp_event(
        &mut self,
        line: &Line<'_>,
        config: &ClientSessionConfig<'_>,
        expected: usize,
    ) -> SessionAction {
        match self.tlcp.on_line(line, config) {
            SessionEvent::Ignored | SessionEvent::Connected => SessionAction::Continue,
            SessionEvent::Subscribed { items, fields, .. } => {
                if items != 1 || fields as usize != expected {
                    return SessionAction::End(format!(
                        "subscription with {items} items and {fields} fields, expected 1 and \
                         {expected}"
                    ));
                }
                self.phase = ClientPhase::Live;
                SessionAction::Live
            }
            SessionEvent::Notification(Line::Overflow { lost, .. }) => {
                SessionAction::Error(format!("server dropped {lost} updates (OV)"))
            }
            SessionEvent::Notification(Line::Unsub { .. }) => {
                SessionAction::End("unsubscribed by the server".to_owned())
            }
            SessionEvent::Notification(_) => SessionAction::Continue,
            SessionEvent::Refused { code, message } => {
                SessionAction::End(format!("subscription refused with code {code}: {message}"))
            }
            SessionEvent::Loop { .. } => {
                // Rebinds on the same socket at once; the delay is for polling clients.
                self.tlcp.rebind(false);
                SessionAction::Continue
            }
            SessionEvent::Closed { code, message } => {
                SessionAction::End(format!("session ended with code {code}: {message}"))
            }
        }
    }

    /// Appends all TLCP requests that can be sent now, each in a frame of its own.
    fn send_pending(&mut self, io: &mut SessionIo<'_>) {
        let Some(config) = io.config else { return };
        let mut message = Vec::new();
        while self.tlcp.poll_send(config, &mut message) {
            push_client_frame(io.out, Opcode::Text, MASK, &message);
            message.clear();
        }
    }
}

/// Shared input of the sessions, and their output.
pub(super) struct SessionIo<'a> {
    pub(super) target: &'a RequestTexts<'a>,
    /// Subscription to request; `None` for the baseline server.
    pub(super) config: Option<&'a ClientSessionConfig<'a>>,
    /// Messages of a protocol with JSON.
    pub(super) json: Option<&'a mut JsonMessages>,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) sink: SessionSink<'a>,
}

/// Receives each action, with the payload of updates.
pub(super) type SessionSink<'a> = &'a mut dyn FnMut(&mut SimulatedClient, SessionAction, &[u8]);

/// Returns the phase after a connection was opened.
fn subscribing(is_live: bool) -> ClientPhase {
    match is_live {
        true => ClientPhase::Live,
        false => ClientPhase::Subscribing,
    }
}

fn reader(deflate: bool) -> WebSocketFrameReader {
    WebSocketFrameReader::new(FrameRole::Client, MESSAGE_BYTES_MAX).with_deflate(deflate)
}

pub(super) fn close_text(phase: ClientPhase, reason: DisconnectReason) -> String {
    match phase {
        ClientPhase::Live | ClientPhase::Ended => format!("session lost: {reason}"),
        _ => format!("setup failed: {reason}"),
    }
}

/// Far above any update of the plans; a longer message is an error of the server.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
