//! Client of `weir gateway tail`: one WebSocket connection with a TLCP session that follows items.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_net::client::{ClientHandler, ClientIo, DisconnectReason};
use weir_net::websocket::{
    FrameEvent, FrameRole, Opcode, WebSocketFrameReader, client_request, new_client_key,
    parse_server_response, push_client_frame, push_pong,
};
use weir_tlcp::client::{
    AddParams, ClientSession, ClientSessionConfig, CreateParams, ItemState, Line, Lines,
    SessionEvent, parse_line,
};
use weir_tlcp::{Mode, PATH_PREFIX, WEBSOCKET_SUBPROTOCOL};

use super::events::{EndReason, TailEnd, TailEvent};
use super::options::TailOptions;

/// WebSocket mask of all messages. A random mask protects caches between client and server from
/// hostile payloads; there are none here.
const MASK: [u8; 4] = [0x57, 0x65, 0x69, 0x72];
/// Maximum size of a message from the server; the gateway's default limit is lower.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Maximum size of the response to the upgrade request.
const RESPONSE_BYTES_MAX: usize = 64 << 10;
/// Id of the only subscription.
const SUB_ID: u32 = 1;
/// Time after a missed keepalive until a connection counts as lost.
const SILENCE_MARGIN: Duration = Duration::from_secs(5);
/// Code of `END` with which the server asks clients to connect again.
const END_RECONNECT: i32 = 48;
/// Codes of `CONERR` after which Lightstreamer's client SDKs try again.
const CONNECT_LATER: [i32; 2] = [5, 6];

/// Receiver of events; it can end the session.
type Sink<'a> = &'a mut dyn FnMut(TailEvent<'_>) -> ControlFlow<()>;

/// Conditions on which the client ends the session.
#[derive(Clone, Copy)]
pub(super) struct TailLimits<'a> {
    /// Set to `true` to end the session.
    pub(super) stop: &'a AtomicBool,
    /// Time by which the first subscription must be active; `None` for later ones.
    pub(super) active_deadline: Option<Instant>,
}

/// Handler of one connection, which has one session.
pub(super) struct TailClient<'a> {
    config: &'a ClientSessionConfig<'a>,
    limits: TailLimits<'a>,
    sink: Sink<'a>,
    upgrade: Vec<u8>,
    websocket_key: String,
    /// Received part of the response to the upgrade request; `None` after the response.
    partial: Option<Vec<u8>>,
    reader: WebSocketFrameReader,
    session: ClientSession,
    items: Vec<FollowedItem>,
    is_live: bool,
    last_read: Instant,
    end: Option<Result<TailEnd, EndReason>>,
}

/// State of an item.
#[derive(Debug, Clone)]
struct FollowedItem {
    state: ItemState,
    /// `true` if the next update belongs to the snapshot.
    in_snapshot: bool,
}

/// Returns the session and the subscription that the options describe.
pub(super) fn config<'a>(
    options: &'a TailOptions,
    group: &'a str,
    schema: &'a str,
) -> ClientSessionConfig<'a> {
    ClientSessionConfig {
        create: CreateParams {
            adapter_set: Some(&options.adapter_set),
            user: options.user.as_deref(),
            password: options.password.as_deref(),
            ..CreateParams::default()
        },
        adds: vec![AddParams {
            mode: options.mode,
            data_adapter: options.data_adapter.as_deref(),
            snapshot: has_snapshot(options).then_some("true"),
            ack: true,
            ..AddParams::raw(SUB_ID, group, schema)
        }],
        subscribes_in_create: false,
    }
}

fn has_snapshot(options: &TailOptions) -> bool {
    options.snapshot && options.mode != Mode::Raw
}

impl<'a> TailClient<'a> {
    pub(super) fn new(
        options: &'a TailOptions,
        config: &'a ClientSessionConfig<'a>,
        authority: &str,
        limits: TailLimits<'a>,
        sink: Sink<'a>,
    ) -> Self {
        let websocket_key = new_client_key([0x77; 16]);
        let mut upgrade = Vec::new();
        client_request(
            &mut upgrade,
            authority,
            PATH_PREFIX,
            &websocket_key,
            WEBSOCKET_SUBPROTOCOL,
            false,
        );
        let item = FollowedItem {
            state: ItemState::new(options.fields.len()),
            in_snapshot: has_snapshot(options),
        };
        Self {
            config,
            limits,
            sink,
            upgrade,
            websocket_key,
            partial: Some(Vec::new()),
            reader: WebSocketFrameReader::new(FrameRole::Client, MESSAGE_BYTES_MAX),
            session: ClientSession::new(),
            items: vec![item; options.items.len()],
            is_live: false,
            last_read: Instant::now(),
            end: None,
        }
    }

    /// Returns `true` if the subscription has been active.
    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the reason why the connection ended; `None` if it has not ended.
    pub(super) fn into_end(self) -> Option<Result<TailEnd, EndReason>> {
        self.end
    }

    fn fail(&mut self, reason: EndReason) {
        self.end.get_or_insert(Err(reason));
    }

    fn emit(&mut self, event: TailEvent<'_>) {
        if (self.sink)(event).is_break() {
            self.end.get_or_insert(Ok(TailEnd::Stopped));
        }
    }

    /// Handles the response to the upgrade request. Returns the bytes after it, `None` while it is
    /// incomplete.
    fn open(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<Vec<u8>> {
        let partial = self.partial.get_or_insert_with(Vec::new);
        partial.extend_from_slice(bytes);
        let opened =
            parse_server_response(partial, &self.websocket_key, WEBSOCKET_SUBPROTOCOL, false);
        match opened {
            Ok(Some(opened)) => {
                let rest = partial.split_off(opened.bytes);
                self.partial = None;
                self.send_requests(out);
                Some(rest)
            }
            Ok(None) if partial.len() <= RESPONSE_BYTES_MAX => None,
            Ok(None) => {
                self.fail(EndReason::permanent(
                    "the response to the upgrade is too long",
                ));
                None
            }
            Err(error) => {
                self.fail(EndReason::permanent(format!("{error}; is this a gateway?")));
                None
            }
        }
    }

    fn read_frames(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // Moved out of `self`, because the events borrow from the reader while `self` is changed.
        let placeholder = WebSocketFrameReader::new(FrameRole::Client, MESSAGE_BYTES_MAX);
        let mut reader = std::mem::replace(&mut self.reader, placeholder);
        let mut rest = bytes;
        while self.end.is_none() {
            match reader.read(rest) {
                Ok((used, Some(event))) => {
                    rest = &rest[used..];
                    self.on_frame(&event, out);
                }
                Ok((_, None)) => break,
                Err(error) => self.fail(EndReason::permanent(error.to_string())),
            }
        }
        self.reader = reader;
    }

    fn on_frame(&mut self, event: &FrameEvent<'_>, out: &mut Vec<u8>) {
        match event {
            FrameEvent::Text(message) => {
                for line in Lines::new(message) {
                    match parse_line(line) {
                        Ok(line) => self.on_line(&line),
                        Err(error) => self.fail(EndReason::permanent(error.to_string())),
                    }
                    if self.end.is_some() {
                        return;
                    }
                }
                self.send_requests(out);
            }
            FrameEvent::Ping(payload) => push_pong(out, Some(MASK), payload),
            FrameEvent::Pong(_) => {}
            FrameEvent::Close { .. } => self.fail(EndReason::transient("closed by the server")),
            FrameEvent::Deflated(_) => {
                self.fail(EndReason::permanent(
                    "compressed message although not negotiated",
                ));
            }
        }
    }

    fn on_line(&mut self, line: &Line<'_>) {
        if let Line::ConErr { code, message } = line {
            let text = format!("the session was refused with code {code}: {message}");
            return self.fail(EndReason {
                text,
                is_transient: CONNECT_LATER.contains(code),
            });
        }
        match self.session.on_line(line, self.config) {
            SessionEvent::Ignored | SessionEvent::Connected => {}
            SessionEvent::Subscribed { .. } => {
                self.is_live = true;
                self.emit(TailEvent::Subscribed);
            }
            SessionEvent::Notification(line) => self.on_notification(line),
            SessionEvent::Refused { code, message } => {
                let text = format!("the subscription was refused with code {code}: {message}");
                self.fail(EndReason::permanent(text));
            }
            SessionEvent::Loop { .. } => self.session.rebind(false),
            SessionEvent::Closed { code, message } => {
                let text = format!("the server ended the session with code {code}: {message}");
                match code {
                    END_RECONNECT => self.fail(EndReason::transient(text)),
                    _ => self.end = Some(Ok(TailEnd::ByServer(text))),
                }
            }
        }
    }

    fn on_notification(&mut self, line: &Line<'_>) {
        match line {
            Line::Update { item, payload, .. } => self.on_update(*item, payload),
            Line::Eos { item, .. } => {
                if let Some(item) = self.item(*item) {
                    item.in_snapshot = false;
                }
            }
            Line::Cs { item, .. } => {
                let item = *item as usize;
                self.emit(TailEvent::Cleared {
                    item: item.saturating_sub(1),
                });
            }
            Line::Overflow { item, lost, .. } => {
                let (item, count) = ((*item as usize).saturating_sub(1), *lost);
                self.emit(TailEvent::Lost { item, count });
            }
            Line::Unsub { .. } => {
                let text = "the server ended the subscription".to_owned();
                self.end = Some(Ok(TailEnd::ByServer(text)));
            }
            _ => {}
        }
    }

    fn item(&mut self, number: u32) -> Option<&mut FollowedItem> {
        self.items.get_mut((number as usize).checked_sub(1)?)
    }

    fn on_update(&mut self, number: u32, payload: &[u8]) {
        let is_merge = self.config.adds.iter().any(|add| add.mode == Mode::Merge);
        let Some(item) = self.item(number) else {
            return self.fail(EndReason::permanent("update of an unknown item"));
        };
        if let Err(error) = item.state.apply(payload) {
            return self.fail(EndReason::permanent(error.to_string()));
        }
        let is_snapshot = item.in_snapshot;
        // In mode MERGE the snapshot is a single update, and no `EOS` line follows.
        item.in_snapshot &= !is_merge;
        let item = number as usize - 1;
        let event = TailEvent::Update {
            item,
            values: self.items[item].state.values().collect(),
            is_snapshot,
        };
        if (self.sink)(event).is_break() {
            self.end.get_or_insert(Ok(TailEnd::Stopped));
        }
    }

    /// Appends all requests that can be sent now, each in a frame of its own.
    fn send_requests(&mut self, out: &mut Vec<u8>) {
        let mut message = Vec::new();
        while self.session.poll_send(self.config, &mut message) {
            push_client_frame(out, Opcode::Text, MASK, &message);
            message.clear();
        }
    }

    /// Returns the time without data after which the connection counts as lost; `None` before the
    /// server has announced its keepalive interval.
    fn silence_max(&self) -> Option<Duration> {
        let keepalive_ms = self.session.keepalive_ms();
        (keepalive_ms > 0).then(|| Duration::from_millis(keepalive_ms) + SILENCE_MARGIN)
    }
}

impl ClientHandler for TailClient<'_> {
    fn on_connected(&mut self, io: &mut ClientIo, conn: usize) {
        io.send(conn, &std::mem::take(&mut self.upgrade));
    }

    fn on_data(&mut self, io: &mut ClientIo, conn: usize, bytes: &[u8], read_at: Instant) {
        self.last_read = read_at;
        let mut out = Vec::new();
        match self.partial {
            None => self.read_frames(bytes, &mut out),
            Some(_) => {
                if let Some(rest) = self.open(bytes, &mut out) {
                    self.read_frames(&rest, &mut out);
                }
            }
        }
        io.send(conn, &out);
    }

    fn on_closed(&mut self, _: &mut ClientIo, _: usize, reason: DisconnectReason) {
        self.fail(EndReason {
            text: reason.to_string(),
            is_transient: !matches!(reason, DisconnectReason::Tls(_)),
        });
    }

    fn on_tick(&mut self, _: &mut ClientIo, now: Instant) -> ControlFlow<()> {
        if self.limits.stop.load(Ordering::Relaxed) {
            self.end.get_or_insert(Ok(TailEnd::Stopped));
        }
        let is_late = self.limits.active_deadline.is_some_and(|at| now > at);
        if is_late && !self.is_live {
            self.fail(EndReason::transient("no response in time"));
        }
        let silence = now.saturating_duration_since(self.last_read);
        if self.silence_max().is_some_and(|max| silence > max) {
            self.fail(EndReason::transient("no data or keepalive from the server"));
        }
        match self.end {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}
