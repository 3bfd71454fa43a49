//! A WebSocket client session as a state machine without I/O.
//!
//! The caller stores the [`ClientSessionConfig`], which sessions may share. It calls
//! [`ClientSession::poll_send`] for messages until there is none, and passes every received line to
//! [`ClientSession::on_line`].

use super::line::Line;
use super::request::{
    AddParams, CreateParams, push_add_line, write_bind, write_create_session, write_delete,
    write_destroy,
};

/// Configuration of a session.
#[derive(Clone, Debug, Default)]
pub struct ClientSessionConfig<'a> {
    /// Parameters of `create_session`.
    pub create: CreateParams<'a>,
    /// Subscriptions to add when the session is created.
    pub adds: Vec<AddParams<'a>>,
    /// Sends the subscriptions in `create_session`, which saves a round trip.
    pub subscribes_in_create: bool,
}

/// State of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientState {
    /// No response to `create_session` or `bind_session` yet.
    #[default]
    Connecting,
    /// Bound to a stream connection.
    Connected,
    /// Unbound by `LOOP`, until the next bind.
    Unbound,
    /// Closed by `CONERR`, `END` or `ERROR`.
    Closed,
}

/// Effect of a line for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named after the arguments of the lines
pub enum SessionEvent<'l, 'a> {
    /// No effect, for example a keepalive.
    Ignored,
    /// The session was created or bound again.
    Connected,
    /// A subscription is active.
    Subscribed {
        sub_id: u32,
        items: u32,
        fields: u32,
        /// All subscriptions of the configuration are active now.
        all: bool,
    },
    /// An update, overflow, end of snapshot or another notification of a subscription or message.
    Notification(&'l Line<'a>),
    /// A request was refused.
    Refused { code: i32, message: &'l str },
    /// The session was unbound; [`ClientSession::rebind`] binds it again after the delay.
    Loop { delay_ms: u64 },
    /// The session was closed by `CONERR`, `END` or `ERROR`.
    Closed { code: i32, message: &'l str },
}

/// A client session. It allocates memory only for the session id.
#[derive(Clone, Debug, Default)]
pub struct ClientSession {
    state: ClientState,
    next: ConnectStep,
    session_id: Option<Box<str>>,
    requests: u64,
    data_count: u64,
    keepalive_ms: u64,
    subscribed: u32,
    delete: Option<u32>,
    destroy: bool,
}

/// Next message while connecting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ConnectStep {
    #[default]
    Wsok,
    Open,
    AwaitOpen,
    Subscribe,
    Done,
}

impl ClientSession {
    /// Creates a session that has not sent anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the state of the session.
    pub fn state(&self) -> ClientState {
        self.state
    }

    /// Returns the session id of the server, a bearer secret.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the number of data notifications received, from which a recovery continues
    /// (`LS_recovery_from`).
    pub fn data_count(&self) -> u64 {
        self.data_count
    }

    /// Returns the keepalive interval of the server in milliseconds; 0 before `CONOK`.
    pub fn keepalive_ms(&self) -> u64 {
        self.keepalive_ms
    }

    /// Returns the number of subscriptions that became active.
    pub fn subscribed(&self) -> u32 {
        self.subscribed
    }

    /// Makes the next [`Self::poll_send`] unsubscribe.
    pub fn delete(&mut self, sub_id: u32) {
        self.delete = Some(sub_id);
    }

    /// Makes the next [`Self::poll_send`] destroy the session.
    pub fn destroy(&mut self) {
        self.destroy = true;
    }

    /// Makes the next [`Self::poll_send`] bind an unbound session; on a new socket, `wsok` precedes
    /// it.
    pub fn rebind(&mut self, new_socket: bool) {
        if self.state == ClientState::Unbound {
            self.state = ClientState::Connecting;
            self.next = match new_socket {
                true => ConnectStep::Wsok,
                false => ConnectStep::Open,
            };
        }
    }

    /// Appends the next message and returns `true`, or returns `false` if there is none. Each
    /// message must be sent in a separate WebSocket frame.
    pub fn poll_send(&mut self, config: &ClientSessionConfig<'_>, out: &mut Vec<u8>) -> bool {
        if self.state == ClientState::Closed {
            return false;
        }
        match self.next {
            ConnectStep::Wsok => {
                out.extend_from_slice(b"wsok");
                self.next = ConnectStep::Open;
            }
            ConnectStep::Open => {
                self.write_open(config, out);
                self.next = ConnectStep::AwaitOpen;
            }
            ConnectStep::AwaitOpen => return false,
            ConnectStep::Subscribe => {
                self.next = ConnectStep::Done;
                self.write_adds(config, out);
            }
            ConnectStep::Done => return self.write_requested(out),
        }
        true
    }

    /// Handles one line of the server.
    pub fn on_line<'l, 'a>(
        &mut self,
        line: &'l Line<'a>,
        config: &ClientSessionConfig<'_>,
    ) -> SessionEvent<'l, 'a> {
        if line.is_data() {
            self.data_count += 1;
        }
        match line {
            Line::Update { .. } => SessionEvent::Notification(line),
            Line::ConOk {
                session_id,
                keepalive_ms,
                ..
            } => {
                self.keepalive_ms = *keepalive_ms;
                self.on_connected(session_id, config);
                SessionEvent::Connected
            }
            Line::SubOk {
                sub_id,
                items,
                fields,
            }
            | Line::SubCmd {
                sub_id,
                items,
                fields,
                ..
            } => {
                self.subscribed += 1;
                let all = self.subscribed as usize == config.adds.len();
                SessionEvent::Subscribed {
                    sub_id: *sub_id,
                    items: *items,
                    fields: *fields,
                    all,
                }
            }
            Line::ReqErr { code, message, .. } => SessionEvent::Refused {
                code: *code,
                message,
            },
            Line::Loop { delay_ms } => {
                self.state = ClientState::Unbound;
                SessionEvent::Loop {
                    delay_ms: *delay_ms,
                }
            }
            Line::ConErr { code, message }
            | Line::End { code, message }
            | Line::Error { code, message } => {
                self.state = ClientState::Closed;
                SessionEvent::Closed {
                    code: *code,
                    message,
                }
            }
            data if data.is_data() => SessionEvent::Notification(data),
            _ => SessionEvent::Ignored,
        }
    }

    fn on_connected(&mut self, session_id: &str, config: &ClientSessionConfig<'_>) {
        self.state = ClientState::Connected;
        // Subscriptions are preserved by a rebind, so they are sent only once.
        let first = self.session_id.is_none();
        self.next = match first && !config.subscribes_in_create && !config.adds.is_empty() {
            true => ConnectStep::Subscribe,
            false => ConnectStep::Done,
        };
        if self.session_id.as_deref() != Some(session_id) {
            self.session_id = Some(session_id.into());
        }
    }

    fn write_open(&self, config: &ClientSessionConfig<'_>, out: &mut Vec<u8>) {
        match self.session_id.as_deref() {
            None => {
                let adds = if config.subscribes_in_create {
                    &config.adds[..]
                } else {
                    &[]
                };
                write_create_session(out, &config.create, adds);
            }
            Some(session) => {
                let keepalive_ms = Some(self.keepalive_ms).filter(|ms| *ms > 0);
                write_bind(out, session, keepalive_ms, config.create.send_sync);
            }
        }
    }

    fn write_adds(&mut self, config: &ClientSessionConfig<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"control");
        for add in &config.adds {
            out.extend_from_slice(b"\r\n");
            push_add_line(out, self.next_request_id(), add);
        }
    }

    fn write_requested(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(sub_id) = self.delete.take() {
            write_delete(out, self.next_request_id(), sub_id);
            return true;
        }
        let destroy = std::mem::take(&mut self.destroy);
        if destroy {
            write_destroy(out, self.next_request_id());
        }
        destroy
    }

    /// Returns a new request id. Call it for each request that the caller encodes itself.
    pub fn next_request_id(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }
}
