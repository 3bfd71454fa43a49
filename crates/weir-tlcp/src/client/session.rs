//! A WebSocket client session as a pure state machine: what to send next, what a line means.
//!
//! The caller keeps the [`ClientSessionConfig`], which sessions may share, asks [`ClientSession::poll_send`]
//! for messages until there is none, and hands every received line to [`ClientSession::on_line`].

use super::line::Line;
use super::request::{
    AddParams, BindParams, CreateParams, push_add_line, write_bind, write_create_session,
    write_delete, write_destroy, write_wsok,
};

/// What a session is to do.
#[derive(Clone, Debug, Default)]
pub struct ClientSessionConfig<'a> {
    /// Parameters of `create_session`.
    pub create: CreateParams<'a>,
    /// Subscriptions to make as soon as the session exists.
    pub adds: Vec<AddParams<'a>>,
    /// Send the subscriptions inside `create_session`, which saves a round trip.
    pub combo: bool,
}

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// No answer to `create_session` or `bind_session` yet.
    Connecting,
    /// Bound to its stream connection.
    Connected,
    /// `LOOP` came: the session waits for a bind.
    Unbound,
    /// `CONERR`, `END` or `ERROR` came: nothing more will.
    Closed,
}

/// What a line means to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent<'l, 'a> {
    /// Nothing to do; keepalives and notes.
    Ignored,
    /// The session exists, or is bound again.
    Connected,
    /// A subscription is active.
    Subscribed {
        /// Subscription.
        sub_id: u32,
        /// Number of items.
        items: u32,
        /// Number of fields.
        fields: u32,
        /// Whether all subscriptions of the plan are active now.
        all: bool,
    },
    /// An update, loss, end of snapshot or other notification of a subscription or message.
    Notification(&'l Line<'a>),
    /// A request was refused.
    Refused {
        /// Code of `REQERR`.
        code: i32,
        /// Message of `REQERR`.
        message: &'l str,
    },
    /// The session is unbound; bind again after the delay with [`ClientSession::rebind`].
    Loop {
        /// In milliseconds.
        delay_ms: u64,
    },
    /// The session is closed, by `CONERR`, `END` or `ERROR`.
    Closed {
        /// Code of that line.
        code: i32,
        /// Message of that line.
        message: &'l str,
    },
}

/// One client session. Its memory is this struct and the session id.
#[derive(Clone, Debug)]
pub struct ClientSession {
    state: ClientState,
    next: ConnectStep,
    session_id: Option<Box<str>>,
    next_request_id: u64,
    data_count: u64,
    keepalive_ms: u64,
    subscribed: u32,
    delete: Option<u32>,
    destroy: bool,
}

/// The next message of the connecting sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectStep {
    Wsok,
    Open,
    AwaitOpen,
    Subscribe,
    Done,
}

impl Default for ClientSession {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientSession {
    /// A session that has sent nothing yet.
    pub fn new() -> Self {
        Self {
            state: ClientState::Connecting,
            next: ConnectStep::Wsok,
            session_id: None,
            next_request_id: 1,
            data_count: 0,
            keepalive_ms: 0,
            subscribed: 0,
            delete: None,
            destroy: false,
        }
    }

    /// Where the session is in its life.
    pub fn state(&self) -> ClientState {
        self.state
    }

    /// The id the server gave; a bearer secret.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Number of data notifications received, the base of recovery.
    pub fn data_count(&self) -> u64 {
        self.data_count
    }

    /// The keepalive the server promised, in milliseconds; 0 before it did.
    pub fn keepalive_ms(&self) -> u64 {
        self.keepalive_ms
    }

    /// Number of subscriptions that have become active.
    pub fn subscribed(&self) -> u32 {
        self.subscribed
    }

    /// Has the next [`Self::poll_send`] unsubscribe.
    pub fn delete(&mut self, sub_id: u32) {
        self.delete = Some(sub_id);
    }

    /// Has the next [`Self::poll_send`] destroy the session.
    pub fn destroy(&mut self) {
        self.destroy = true;
    }

    /// Has the next [`Self::poll_send`] bind an unbound session; on a new socket `wsok` goes first.
    pub fn rebind(&mut self, new_socket: bool) {
        if self.state == ClientState::Unbound {
            self.state = ClientState::Connecting;
            self.next = if new_socket {
                ConnectStep::Wsok
            } else {
                ConnectStep::Open
            };
        }
    }

    /// Appends the next message to send and returns `true`, or returns `false`. Each message must
    /// travel in a WebSocket frame of its own.
    pub fn poll_send(&mut self, plan: &ClientSessionConfig<'_>, out: &mut Vec<u8>) -> bool {
        if self.state == ClientState::Closed {
            return false;
        }
        match self.next {
            ConnectStep::Wsok => {
                write_wsok(out);
                self.next = ConnectStep::Open;
                true
            }
            ConnectStep::Open => {
                self.write_open(plan, out);
                self.next = ConnectStep::AwaitOpen;
                true
            }
            ConnectStep::AwaitOpen => false,
            ConnectStep::Subscribe => {
                self.next = ConnectStep::Done;
                self.write_adds(plan, out);
                true
            }
            ConnectStep::Done => self.write_asked_for(out),
        }
    }

    /// Takes one line of the server.
    pub fn on_line<'l, 'a>(
        &mut self,
        line: &'l Line<'a>,
        plan: &ClientSessionConfig<'_>,
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
                self.on_connected(session_id, plan);
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
                let all = self.subscribed as usize == plan.adds.len();
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

    fn on_connected(&mut self, session_id: &str, plan: &ClientSessionConfig<'_>) {
        self.state = ClientState::Connected;
        // Subscriptions survive a rebind, so they are sent only once.
        let first = self.session_id.is_none();
        self.next = match first && !plan.combo && !plan.adds.is_empty() {
            true => ConnectStep::Subscribe,
            false => ConnectStep::Done,
        };
        if self.session_id.as_deref() != Some(session_id) {
            self.session_id = Some(session_id.into());
        }
    }

    fn write_open(&self, plan: &ClientSessionConfig<'_>, out: &mut Vec<u8>) {
        match self.session_id.as_deref() {
            None => {
                let adds = if plan.combo { &plan.adds[..] } else { &[] };
                write_create_session(out, &plan.create, adds);
            }
            Some(session) => {
                let bind = BindParams {
                    session: Some(session),
                    keepalive_ms: Some(self.keepalive_ms).filter(|ms| *ms > 0),
                    send_sync: plan.create.send_sync,
                    ..BindParams::default()
                };
                write_bind(out, &bind);
            }
        }
    }

    fn write_adds(&mut self, plan: &ClientSessionConfig<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"control");
        for add in &plan.adds {
            out.extend_from_slice(b"\r\n");
            push_add_line(out, self.request_id(), add);
        }
    }

    fn write_asked_for(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(sub_id) = self.delete.take() {
            write_delete(out, self.request_id(), sub_id, true);
        } else if std::mem::take(&mut self.destroy) {
            write_destroy(out, self.request_id());
        } else {
            return false;
        }
        true
    }

    /// The id of the next request; also for requests the caller writes itself.
    pub fn request_id(&mut self) -> u64 {
        let id = self.next_request_id;
        self.next_request_id += 1;
        id
    }
}
