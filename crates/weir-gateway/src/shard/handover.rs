//! Binds sessions to stream connections. A connection that another shard has accepted moves to the
//! shard of its session.

use weir_fanout::SessionKey;
use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::server::{Detached, ServerIo};
use weir_tlcp::codes::SessionCode;
use weir_tlcp::request::{BindSession, StreamOptions, ToBoundedStatic as _};
use weir_tlcp::server::write_prog;

use super::event::{HandoverRequest, StreamRequest};
use super::event_clients;
use super::frame::Framing;
use super::http_responses;
use super::requests::client_ip;
use super::responses::{MessageOutcome, ResponseBatch, SessionRefusal, refused};
use super::session::{SessionPoll, StreamBinding};
use super::state::Shard;
use super::wire::Wire;

/// Default length of a stream in an HTTP response, in bytes. Then the client has to bind again.
const STREAM_BYTES: u64 = 4_000_000;
/// Bounds of the length that a client may request: browsers hold a whole response in memory.
const STREAM_BYTES_MIN: u64 = 1_000;
const STREAM_BYTES_MAX: u64 = 50_000_000;

impl Shard {
    /// Handles `bind_session`. If the session does not exist, an SDK creates a new one at once.
    pub(super) fn bind(
        &mut self,
        wire: &mut impl Wire,
        bind: &BindSession<'_>,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        let mut bind = bind.to_static();
        if bind.session.is_none() {
            let entry = self.clients.sessions.tagged(wire.tag(responses.conn));
            bind.session = entry.map(|entry| entry.core.id().into());
        }
        let named = bind.session.as_ref();
        let remote = named.and_then(|id| self.forwarding.remote_shard(id));
        match (self.check_stream(wire, responses), remote) {
            (Err(refusal), _) => responses.refuse(&refusal),
            (Ok(()), Some(shard)) => {
                self.hand_over(wire, shard, StreamRequest::Bind(bind), responses)
            }
            (Ok(()), None) => self.attach(wire, &bind, responses),
        }
    }

    /// Detaches the connection of a request, which another shard handles.
    pub(super) fn hand_over(
        &mut self,
        wire: &mut impl Wire,
        shard: u16,
        request: StreamRequest,
        responses: &ResponseBatch,
    ) -> MessageOutcome {
        wire.detach(responses.conn);
        let request = HandoverRequest {
            request,
            transport: responses.transport.clone(),
            dialect: self.dialects.remove(responses.conn),
            credentials: self.credentials.remove(responses.conn),
            head: (self.clients.adapter.as_mut())
                .and_then(|adapter| adapter.remove_head(responses.conn)),
        };
        self.forwarding.handover = Some((shard, request));
        MessageOutcome::HandOver
    }

    fn attach(
        &mut self,
        wire: &mut impl Wire,
        bind: &BindSession<'_>,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        let attached = self.try_attach(wire, bind, responses);
        attached.unwrap_or_else(|refusal| responses.refuse(&refusal))
    }

    /// Binds a session of this shard to a connection.
    fn try_attach(
        &mut self,
        wire: &mut impl Wire,
        bind: &BindSession<'_>,
        responses: &mut ResponseBatch,
    ) -> Result<MessageOutcome, SessionRefusal> {
        let not_found = || refused(SessionCode::SESSION_NOT_FOUND);
        let id = bind.session.as_deref().unwrap_or_default();
        let key = self.clients.sessions.find(id).ok_or_else(not_found)?;
        limited!(
            debug, "bind_session", session = ?Truncated(&bind.session),
            cause = ?Truncated(&bind.cause), recovery_from = ?bind.recovery_from,
            "received bind_session"
        );
        if self.is_foreign(wire, key, responses.conn) || self.clients.has_revoked_token(key) {
            return Err(not_found());
        }
        let ip = client_ip(wire, responses.conn);
        let now_ms = wire.now_ms();
        let version = self.dialects.version(bind.version, responses.conn);
        let line_max = self.line_max(responses);
        let entry = self.clients.sessions.get_mut(key).ok_or_else(not_found)?;
        if entry.version != version {
            return Err(refused(SessionCode::INCOMPATIBLE_SESSION));
        }
        let mut from = None;
        if let Some(received) = bind.recovery_from {
            entry.recovers = true;
            from = entry.rewind(received);
            if from.is_none() {
                self.clients.counters.recoveries_refused += 1;
                return Err(refused(SessionCode::RECOVERY_UNAVAILABLE));
            }
            self.clients.counters.recoveries += 1;
        } else {
            entry.continue_after_last_stream();
        }
        let journal = entry.journal.as_ref();
        if journal.is_some_and(|journal| !journal.is_readable(line_max)) {
            // The client could not read the line on this connection either. It creates a new
            // session instead.
            let code = SessionCode::RECOVERY_UNAVAILABLE;
            return Err((code, "an unsent line is too long for this client".into()));
        }
        let (core, config) = (&mut entry.core, &self.clients.shared.session);
        core.bind(&bind.stream, config, &ip, now_ms, &mut responses.lines);
        if let Some(from) = from {
            write_prog(&mut responses.lines, from);
        }
        self.clients.counters.sessions_rebound += 1;
        Ok(self.connect(wire, key, &bind.stream, &[], responses))
    }

    fn line_max(&self, responses: &ResponseBatch) -> u32 {
        let (framing, configured) = (
            responses.transport.framing(),
            self.clients.shared.limits.line_bytes,
        );
        self.dialects.line_max(responses.conn, framing, configured)
    }

    /// Makes a connection the stream connection of a session.
    ///
    /// It sends the head in `responses`, `notifications`, unsent frames of the journal and updates
    /// of lagging items, in this order. The previous stream connection is closed without notice.
    pub(super) fn connect(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        stream: &StreamOptions,
        notifications: &[u8],
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        let now_ms = wire.now_ms();
        let framing = responses.transport.framing();
        let line_max = self.line_max(responses);
        let Some(entry) = self.clients.sessions.get_mut(key) else {
            return MessageOutcome::Respond;
        };
        let before = std::mem::replace(&mut entry.conn, responses.conn);
        entry.line_max = line_max;
        let binding = match (stream.polling, framing) {
            (Some(asked), _) => {
                let granted = self.clients.shared.session.granted(asked);
                Some(StreamBinding::Poll(SessionPoll {
                    framing,
                    until_ms: now_ms + granted.idle_ms,
                    interval_ms: granted.interval_ms,
                    has_data: false,
                }))
            }
            (None, Framing::WebSocket) => None,
            (None, Framing::Chunk) if entry.event_form.is_some() => Some(StreamBinding::Http {
                bytes_left: u64::MAX,
                fresh: true,
            }),
            (None, Framing::Chunk) => {
                let asked = stream.content_length.unwrap_or(STREAM_BYTES);
                let bytes_left = asked.clamp(STREAM_BYTES_MIN, STREAM_BYTES_MAX);
                Some(StreamBinding::Http {
                    bytes_left,
                    fresh: true,
                })
            }
        };
        let window = wire.deflate_window(responses.conn);
        let binding = binding.map(Box::new);
        self.clients.writer.bind(entry, binding, window);
        entry.arm(wire);
        wire.set_tag(responses.conn, key.to_bits());
        if before != responses.conn {
            wire.close(before, None, true);
        }
        let mut outcome = MessageOutcome::Respond;
        let form = entry.event_form;
        if let Some(head) = http_responses::stream_head(&responses.transport) {
            wire.begin_body(responses.conn, &head);
            outcome = MessageOutcome::Stream;
        }
        if let Some(form) = form {
            responses.lines = event_clients::first_lines(form);
        }
        let head = std::mem::take(&mut responses.lines);
        self.clients.write_control_lines(wire, key, &head);
        responses.lines = head;
        responses.lines.clear();
        if !notifications.is_empty() {
            self.clients.notify(wire, key, notifications);
        }
        self.clients.resume(wire, key);
        outcome
    }

    /// Takes over a connection from another shard and makes it the stream connection of a session
    /// of this shard.
    pub(super) fn accept_handover(
        &mut self,
        io: &mut ServerIo,
        request: HandoverRequest,
        connection: Detached,
    ) {
        let Some(conn) = io.adopt(connection) else {
            return;
        };
        let HandoverRequest {
            request,
            transport,
            dialect,
            credentials,
            head,
        } = request;
        // The other shard has stopped counting the connection.
        let (peer, admission) = (io.peer(conn), &self.clients.shared.admission);
        let admission_id = peer.and_then(|peer| admission.enter(peer.ip()).ok());
        io.set_admission_id(conn, admission_id.unwrap_or(0));
        self.dialects.insert(conn, dialect);
        self.credentials.insert(conn, credentials);
        if let Some(adapter) = &mut self.clients.adapter {
            adapter.insert_head(conn, head);
        }
        let mut responses = ResponseBatch::on(conn, transport, Vec::new());
        let outcome = match &request {
            StreamRequest::Create(create, client) => {
                self.create_here(io, create, client, &mut responses)
            }
            StreamRequest::Bind(bind) => self.attach(io, bind, &mut responses),
        };
        if outcome == MessageOutcome::Respond {
            http_responses::send_response(io, responses);
        }
    }
}
