//! The protocol of one adapter as a state machine: bytes, requests and times go in; bytes and
//! actions come out. Times are milliseconds of any clock.

mod action;
mod calls;
mod close_queue;
mod handshake;
mod notices;
mod options;
#[cfg(test)]
mod tests;
mod text;
mod users;

use std::sync::Arc;

use weir_identity::ari::{
    AdapterException, AdapterLine, AdapterMethod, AdapterNotification, AdapterPeer, AdapterRequest,
    AriError, ExceptionKind, LineBuffer, NotificationResult, ReplyLine,
};

use self::calls::{Call, Caller, Calls, Expired};
use self::close_queue::CloseQueue;
use self::handshake::Handshake;
use self::notices::Notices;
use self::text::{MESSAGE_BYTES_MAX, cut};
use self::users::{Joined, Users};
use crate::config::CloseRecovery;
use crate::metrics::AdapterMetrics;
use crate::outcome::{AdapterFailure, AdapterOutcome};

pub use self::action::{NotificationTicket, ProtocolAction};
pub use self::options::{ProtocolOptions, WhileDown};

/// Longest pause before another connection is accepted, as a power of two seconds, and its bound.
const PENALTY_SHIFT_MAX: u32 = 5;
const PENALTY_MS_MAX: u64 = 30_000;

#[derive(Debug)]
enum LinkState {
    Down,
    Handshake(Handshake),
    Ready(AdapterPeer),
    /// Closed by the gateway; the caller has not confirmed it with [`AdapterProtocol::on_lost`].
    Closing,
}

/// State of the protocol with one adapter, over several connections. `T` identifies a request to
/// its sender.
#[derive(Debug)]
pub struct AdapterProtocol<T> {
    options: ProtocolOptions,
    metrics: Arc<AdapterMetrics>,
    state: LinkState,
    lines: LineBuffer,
    input_ms: u64,
    calls: Calls<T>,
    users: Users,
    closes: CloseQueue,
    notices: Notices,
    output: String,
    actions: Vec<ProtocolAction<T>>,
    /// Rejected connections since the last one that was ready.
    rejected: u32,
}

impl<T> AdapterProtocol<T> {
    /// Creates the state without a connection.
    pub fn new(options: ProtocolOptions, metrics: Arc<AdapterMetrics>) -> Self {
        Self {
            closes: CloseQueue::new(options.close_recovery),
            options,
            metrics,
            state: LinkState::Down,
            lines: LineBuffer::default(),
            input_ms: 0,
            calls: Calls::default(),
            users: Users::default(),
            notices: Notices::default(),
            output: String::new(),
            actions: Vec::new(),
            rejected: 0,
        }
    }

    /// Begins a connection.
    pub fn on_connected(&mut self, now_ms: u64) {
        self.lines = LineBuffer::default();
        self.output.clear();
        self.input_ms = now_ms;
        let needs_credentials = !self.options.users.is_empty();
        self.state = LinkState::Handshake(Handshake::begin(needs_credentials, now_ms));
    }

    /// Processes received bytes. [`Self::wants_input`] must be `true`.
    pub fn on_received(&mut self, bytes: &[u8], now_ms: u64) {
        self.input_ms = now_ms;
        self.lines.push(bytes);
        self.process_lines(now_ms);
    }

    /// Returns `true` unless the adapter has to wait until its notifications are answered.
    pub fn wants_input(&self) -> bool {
        !self.notices.is_full()
    }

    /// Ends a connection, which either side has closed.
    pub fn on_lost(&mut self, now_ms: u64) {
        self.state = LinkState::Down;
        self.metrics.set_connected(false);
        self.output.clear();
        self.notices.reset();
        self.users.reset();
        let mut closes = Vec::new();
        for (id, call) in self.calls.take_all() {
            match call.caller {
                Caller::Close => closes.push((call.request, call.sent)),
                _ => self.interrupt(id, call, now_ms),
            }
        }
        self.closes.interrupt(closes);
        self.publish();
    }

    /// Sends a request, or lets it wait for a connection. Its outcome is an action.
    pub fn request(
        &mut self,
        request: AdapterRequest,
        token: T,
        while_down: WhileDown,
        now_ms: u64,
    ) {
        let Some(method) = request.method() else {
            debug_assert!(false, "CLOSE is not a request");
            return;
        };
        if !self.is_ready() && while_down == WhileDown::Fail {
            return self.complete(method, token, Err(AdapterFailure::Down));
        }
        let (calls, waiter_ms) = (&mut self.calls, now_ms + self.options.timeout_ms);
        let token = match self.users.join(&request, calls, token, waiter_ms, now_ms) {
            Joined::Waits => return,
            Joined::Done(token, outcome) => return self.complete(method, token, outcome),
            Joined::No(token) => token,
        };
        if self.calls.len() >= self.options.pending_max {
            return self.complete(method, token, Err(AdapterFailure::Overloaded));
        }
        let (caller, deadline_ms) = match users::key(&request) {
            Some(_) => (
                Caller::Users(vec![(token, waiter_ms)]),
                now_ms + users::JOIN_MS,
            ),
            None => (Caller::One(token), waiter_ms),
        };
        let call = Call {
            request,
            method,
            caller,
            while_down,
            begin_ms: now_ms,
            deadline_ms,
            sent: false,
        };
        let id = self.calls.insert(call);
        self.users.begin(&self.calls, id);
        if let LinkState::Ready(peer) = self.state {
            self.calls.start(id, &peer, &mut self.output);
        }
        self.publish();
    }

    /// Sends `NTC` or `NSC`, now or later; there is no outcome.
    pub fn notify_close(&mut self, request: AdapterRequest, now_ms: u64) {
        self.push_close(request, self.is_ready(), now_ms);
        self.publish();
    }

    /// Answers a notification. Answers to an earlier connection are ignored.
    pub fn respond(
        &mut self,
        ticket: NotificationTicket,
        result: &NotificationResult,
        now_ms: u64,
    ) {
        self.notices.respond(ticket, result, &mut self.output);
        self.process_lines(now_ms);
    }

    /// Handles deadlines that have passed.
    pub fn on_tick(&mut self, now_ms: u64) {
        if let LinkState::Handshake(handshake) = &mut self.state {
            if let Err(reason) = handshake.tick(&self.options, now_ms, &mut self.output) {
                self.reject(reason);
            }
        }
        if self.is_open() && self.wants_input() && now_ms >= self.silent_ms() {
            self.close("no line for too long");
        }
        for (id, expired) in self.calls.expire(now_ms) {
            match expired {
                Expired::Waiter(method, token) => {
                    self.complete(method, token, Err(AdapterFailure::Timeout));
                }
                Expired::Call(call) => self.finish(id, *call, Err(AdapterFailure::Timeout), now_ms),
            }
        }
        self.users.expire(now_ms);
        self.publish();
    }

    /// Returns the time of the next [`Self::on_tick`].
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let handshake = match &self.state {
            LinkState::Handshake(handshake) => Some(handshake.deadline_ms()),
            _ => None,
        };
        let silent = (self.is_open() && self.wants_input()).then(|| self.silent_ms());
        let all = [
            handshake,
            silent,
            self.calls.next_deadline_ms(),
            self.users.next_deadline_ms(),
        ];
        all.into_iter().flatten().min()
    }

    /// Returns `true` if no close notification waits for its reply or to be sent.
    pub fn is_idle(&self) -> bool {
        !self.is_ready() || (self.closes.len() == 0 && self.calls.closes() == 0)
    }

    /// Ends the connection because the gateway stops.
    pub fn stop(&mut self) {
        if self.is_open() {
            self.close("shutting down");
        }
    }

    /// Returns the pause before the next connection: 0, or 1 to 30 s after rejected ones.
    pub fn pause_ms(&self) -> u64 {
        match self.rejected {
            0 => 0,
            count => (1_000 << (count - 1).min(PENALTY_SHIFT_MAX)).min(PENALTY_MS_MAX),
        }
    }

    /// Returns the lines to send since the last call.
    pub fn take_output(&mut self) -> String {
        std::mem::take(&mut self.output)
    }

    /// Returns the actions since the last call.
    pub fn take_actions(&mut self) -> Vec<ProtocolAction<T>> {
        std::mem::take(&mut self.actions)
    }

    fn is_ready(&self) -> bool {
        matches!(self.state, LinkState::Ready(_))
    }

    fn is_open(&self) -> bool {
        matches!(self.state, LinkState::Ready(_) | LinkState::Handshake(_))
    }

    fn silent_ms(&self) -> u64 {
        self.input_ms + self.options.activity_timeout_ms
    }

    /// Processes complete lines while the connection is open and its notifications are answered.
    fn process_lines(&mut self, now_ms: u64) {
        let mut lines = std::mem::take(&mut self.lines);
        while self.is_open() && self.wants_input() {
            let done = match lines.next_line() {
                None => break,
                Some(Ok(line)) => self.process_line(line, now_ms),
                Some(Err(error)) => Err(error),
            };
            if let Err(error) = done {
                self.violated(error);
            }
        }
        self.lines = lines;
        self.publish();
    }

    fn process_line(&mut self, line: &str, now_ms: u64) -> Result<(), AriError> {
        match &mut self.state {
            LinkState::Handshake(handshake) => {
                let done = handshake.process(line, &self.options, now_ms, &mut self.output)?;
                match done {
                    Ok(None) => {}
                    Ok(Some(peer)) => self.become_ready(peer, now_ms),
                    Err(reason) => self.reject(reason),
                }
                Ok(())
            }
            LinkState::Ready(peer) => {
                let peer = *peer;
                match AdapterLine::parse(line, peer.version)? {
                    AdapterLine::KeepAlive => Ok(()),
                    AdapterLine::Reply(reply) => self.process_reply(reply, &peer, now_ms),
                    AdapterLine::Notification(id, notification) => self.notified(id, notification),
                }
            }
            LinkState::Down | LinkState::Closing => Ok(()),
        }
    }

    fn become_ready(&mut self, peer: AdapterPeer, now_ms: u64) {
        tracing::info!(version = peer.version.as_str(), "remote adapter connected");
        self.state = LinkState::Ready(peer);
        self.rejected = 0;
        self.metrics.set_connected(true);
        self.actions.push(ProtocolAction::Ready);
        self.calls.start_all(&peer, &mut self.output);
        self.send_closes(now_ms);
    }

    fn process_reply(
        &mut self,
        reply: ReplyLine<'_>,
        peer: &AdapterPeer,
        now_ms: u64,
    ) -> Result<(), AriError> {
        let id = calls::parse_id(reply.id).ok_or(AriError::Line)?;
        let Some((method, entries)) = self.calls.sent(id) else {
            return self.process_late_reply(id, reply, peer, now_ms);
        };
        let outcome = match reply.decode(method, entries, peer.version) {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(exception)) => Err(AdapterFailure::Exception(shortened(exception))),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => Err(AdapterFailure::Invalid(error)),
        };
        if let Some(call) = self.calls.remove(id) {
            self.metrics
                .replied(method, now_ms.saturating_sub(call.begin_ms));
            self.finish(id, call, outcome, now_ms);
        }
        Ok(())
    }

    /// Handles a reply after its deadline: an acceptance without a receiver is undone.
    fn process_late_reply(
        &mut self,
        id: u64,
        reply: ReplyLine<'_>,
        peer: &AdapterPeer,
        now_ms: u64,
    ) -> Result<(), AriError> {
        if !self.calls.was_used(id) {
            return Err(AriError::Line);
        }
        self.metrics.late_reply();
        let Some(request) = self.calls.take_late(id) else {
            return Ok(());
        };
        let Some(method) = request.method() else {
            return Ok(());
        };
        if let Ok(Ok(_)) = reply.decode(method, 0, peer.version) {
            let undo = match request {
                AdapterRequest::NotifyNewSession { session, .. } => {
                    AdapterRequest::NotifySessionClose { session }
                }
                AdapterRequest::NotifyNewTables { session, table, .. } => {
                    AdapterRequest::NotifyTablesClose {
                        session,
                        table,
                        statistics: Vec::new(),
                    }
                }
                _ => return Ok(()),
            };
            self.push_close(undo, true, now_ms);
        }
        Ok(())
    }

    fn notified(&mut self, id: &str, notification: AdapterNotification) -> Result<(), AriError> {
        match &notification {
            AdapterNotification::Failure { message } => {
                let message = message.as_deref().unwrap_or_default();
                let message = weir_net::log::Truncated(message);
                tracing::warn!(%message, "remote adapter reported a failure");
                self.close("the adapter failed");
                return Ok(());
            }
            // A second one changes nothing: the peer is known.
            AdapterNotification::Credentials { .. } => return Ok(()),
            _ => {}
        }
        let waits = |session: &str| self.calls.concerns(session);
        if let Some(action) = self
            .notices
            .receive(id, notification, waits, &mut self.output)?
        {
            self.actions.push(action.into());
        }
        Ok(())
    }

    /// Completes a request that has left `calls`.
    fn finish(&mut self, id: u64, call: Call<T>, outcome: AdapterOutcome, now_ms: u64) {
        let is_late = outcome == Err(AdapterFailure::Timeout);
        let session = call.session().map(str::to_owned);
        let (method, sent) = (call.method, call.sent);
        self.users.finish(&call, &outcome, now_ms);
        match call.caller {
            Caller::One(token) => self.complete(method, token, outcome),
            Caller::Users(waiters) => {
                for (token, _) in waiters {
                    self.complete(method, token, outcome.clone());
                }
            }
            Caller::Close => self.metrics.count(method, &outcome),
        }
        if is_late && sent {
            self.calls.keep_late(id, call.request);
        }
        if let LinkState::Ready(peer) = self.state {
            self.calls
                .advance(id, session.as_deref(), &peer, &mut self.output);
        }
        if let Some(session) = session {
            let released = self.notices.release(&session);
            self.actions.extend(released.into_iter().map(Into::into));
        }
        self.send_closes(now_ms);
    }

    fn complete(&mut self, method: AdapterMethod, token: T, outcome: AdapterOutcome) {
        self.metrics.count(method, &outcome);
        self.actions.push(ProtocolAction::Complete(token, outcome));
    }

    /// Decides about a request whose connection was lost.
    fn interrupt(&mut self, id: u64, mut call: Call<T>, now_ms: u64) {
        if call.may_repeat() && now_ms < call.deadline_ms {
            call.sent = false;
            self.calls.put_back(id, call);
        } else {
            self.finish(id, call, Err(AdapterFailure::Down), now_ms);
        }
    }

    fn push_close(&mut self, request: AdapterRequest, is_ready: bool, now_ms: u64) {
        if !self.closes.push(request, is_ready) {
            self.metrics.close_dropped();
        }
        self.send_closes(now_ms);
    }

    /// Sends close notifications while the number of pending requests allows it.
    fn send_closes(&mut self, now_ms: u64) {
        let LinkState::Ready(peer) = self.state else {
            return;
        };
        while self.calls.len() < self.options.pending_max {
            let Some(request) = self.closes.pop() else {
                return;
            };
            let Some(method) = request.method() else {
                continue;
            };
            let id = self.calls.insert(Call {
                request,
                method,
                caller: Caller::Close,
                while_down: WhileDown::Fail,
                begin_ms: now_ms,
                deadline_ms: now_ms + self.close_timeout_ms(),
                sent: false,
            });
            self.calls.start(id, &peer, &mut self.output);
        }
    }

    /// Returns the time for the reply to a close notification. With pessimistic recovery it lasts
    /// until a silent connection is closed, so that the next one gets the notification.
    fn close_timeout_ms(&self) -> u64 {
        let reply_ms = self.options.timeout_ms;
        match self.options.close_recovery {
            CloseRecovery::Pessimistic => reply_ms + self.options.activity_timeout_ms,
            CloseRecovery::Optimistic | CloseRecovery::Unneeded => reply_ms,
        }
    }

    fn violated(&mut self, error: AriError) {
        let is_handshake = matches!(self.state, LinkState::Handshake(_));
        tracing::warn!(%error, "remote adapter violated the protocol, connection closed");
        self.rejected = self.rejected.saturating_add(u32::from(is_handshake));
        self.close("protocol violation");
    }

    /// Closes a connection that never became ready. The next one has to wait.
    fn reject(&mut self, reason: &'static str) {
        tracing::warn!(reason, "remote adapter rejected");
        self.rejected = self.rejected.saturating_add(1);
        self.close(reason);
    }

    fn close(&mut self, reason: &str) {
        let understands = match &self.state {
            LinkState::Ready(peer) => peer.understands_close(),
            LinkState::Handshake(handshake) => handshake.understands_close(),
            LinkState::Down | LinkState::Closing => return,
        };
        if understands {
            handshake::write_close(reason, &mut self.output);
        }
        self.state = LinkState::Closing;
        self.metrics.set_connected(false);
        self.actions.push(ProtocolAction::Close);
    }

    fn publish(&self) {
        self.metrics.set_queues(self.calls.len(), self.closes.len());
    }
}

/// Returns an exception with texts of limited length.
fn shortened(mut exception: AdapterException) -> AdapterException {
    let shorten = |text: &mut Option<String>| {
        if let Some(text) = text {
            cut(text, MESSAGE_BYTES_MAX);
        }
    };
    shorten(&mut exception.message);
    if let ExceptionKind::Credits { user_message, .. }
    | ExceptionKind::ConflictingSession { user_message, .. } = &mut exception.kind
    {
        shorten(user_message);
    }
    exception
}
