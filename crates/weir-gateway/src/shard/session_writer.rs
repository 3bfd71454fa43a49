//! The only path of data notifications to a session.
//!
//! It queues them on the stream connection, or in the journal while there is none, counts them, and
//! stores them for recovery.

use weir_fanout::{Output, QueuePolicy, SendOutcome, SessionKey};
use weir_net::server::TrySend;
use weir_net::websocket::DeflateWindow;
use weir_tlcp::server::write_loop;

use super::context::ShardContext;
use super::frame::{CompressionCounters, Compressor, Frame, Framing};
use super::journal::JournalLimits;
use super::session::{SessionEntry, StreamBinding};
use super::timers::{END_POLLS, SESSION_TIMERS};
use super::wire::{NO_CONNECTION, Wire};

/// Bytes reserved for the `LOOP` line of an HTTP body.
const LOOP_BYTES: u64 = 8;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WriterCounters {
    pub(crate) unbound: u64,
    pub(crate) journal_bytes: u64,
    pub(crate) compression: CompressionCounters,
}

/// Limits and totals of all sessions' output.
#[derive(Debug)]
pub(super) struct SessionWriter {
    /// Maximum number of bytes queued for a session without a stream.
    unbound_bytes_max: usize,
    /// Time for which a session is stored after `LOOP`, in milliseconds.
    unbound_ms: u64,
    limits: JournalLimits,
    pub(super) compressor: Compressor,
    /// Polls that have received data. They end in the next iteration, with the data queued until
    /// then.
    pub(super) polls_with_data: Vec<SessionKey>,
    pub(super) journal_bytes: usize,
    pub(super) unbound: u64,
    /// Time until which updates that are too long are not logged again.
    pub(super) too_long_log_ms: u64,
}

impl SessionWriter {
    pub(super) fn new(shared: &ShardContext) -> Self {
        let limits = &shared.limits;
        Self {
            unbound_bytes_max: limits.queue_bytes,
            unbound_ms: limits.unbound_timeout_ms,
            limits: JournalLimits {
                bytes: limits.recovery_bytes,
                age_ms: limits.recovery_ms,
            },
            compressor: Compressor::new(&shared.compression),
            polls_with_data: Vec::new(),
            journal_bytes: 0,
            unbound: 0,
            too_long_log_ms: 0,
        }
    }

    /// Refills the compression budget and returns the counters.
    pub(super) fn publish(&mut self, now_ms: u64) -> WriterCounters {
        self.compressor.refill(now_ms);
        WriterCounters {
            unbound: self.unbound,
            journal_bytes: self.journal_bytes as u64,
            compression: self.compressor.counters,
        }
    }

    /// Sends or queues `count` data notifications.
    ///
    /// A deferrable frame is not queued while the client lags; then the caller queues its values.
    /// No frame is queued if the queue is full or the connection is closed.
    #[inline]
    pub(super) fn write_data(
        &mut self,
        wire: &mut impl Wire,
        entry: &mut SessionEntry,
        frame: &Frame,
        count: u32,
        policy: QueuePolicy,
    ) -> TrySend {
        let has_unsent = entry.journal.as_ref().is_some_and(|one| one.has_unsent());
        let sent = match has_unsent {
            true => None,
            false => self.transmit(wire, entry, frame, policy),
        };
        match sent {
            Some(TrySend::Queued) => {
                let now_ms = wire.now_ms();
                self.record_sent(entry, frame, count, now_ms);
                entry.core.count_data(count.into());
                entry.core.wrote(now_ms);
                TrySend::Queued
            }
            Some(not_queued) => not_queued,
            None if policy == QueuePolicy::Deferrable => TrySend::Full,
            None => self.queue_unsent(entry, frame, count),
        }
    }

    /// Queues a frame on the session's stream connection. Returns `None` if there is none, or if
    /// the frame does not fit into the HTTP response, which has then ended with `LOOP`.
    fn transmit(
        &mut self,
        wire: &mut impl Wire,
        entry: &mut SessionEntry,
        frame: &Frame,
        policy: QueuePolicy,
    ) -> Option<TrySend> {
        // For a stream on a WebSocket, the length of the lines is not needed.
        let bytes = || frame.lines().len();
        let mut framing = Framing::WebSocket;
        if entry.binding.is_some() {
            if !self.ensure_body_capacity(wire, entry, bytes() as u64) {
                return None;
            }
            framing = entry.framing()?;
        }
        let chunk = match (framing, entry.window) {
            (Framing::WebSocket, Some(window)) if window.fits(bytes()) => {
                frame.compressed(&mut self.compressor)
            }
            (framing, _) => frame.framed(framing),
        };
        let sent = match policy {
            QueuePolicy::Deferrable => wire.try_send(entry.conn, chunk),
            QueuePolicy::Always => match wire.send(entry.conn, chunk) {
                true => TrySend::Queued,
                false => TrySend::Closed,
            },
        };
        if sent == TrySend::Queued && entry.binding.is_some() {
            self.note_bytes_sent(wire, entry, bytes() as u64);
        }
        Some(sent)
    }

    /// Counts `bytes` that were queued for an HTTP response. A poll that has data ends soon.
    fn note_bytes_sent(&mut self, wire: &mut impl Wire, entry: &mut SessionEntry, bytes: u64) {
        match entry.binding.as_deref_mut() {
            Some(StreamBinding::Http { bytes_left, fresh }) => {
                *bytes_left = bytes_left.saturating_sub(bytes);
                *fresh = false;
            }
            Some(StreamBinding::Poll(poll)) => {
                if !std::mem::replace(&mut poll.has_data, true) {
                    if self.polls_with_data.is_empty() {
                        // The poll ends in the next iteration, with the data queued until then.
                        wire.set_timer(wire.now_ms(), END_POLLS);
                    }
                    self.polls_with_data.push(entry.key());
                }
            }
            Some(StreamBinding::Unbound { .. }) | None => {}
        }
    }

    /// Ends an HTTP response with `LOOP` if `bytes` more do not fit, and returns `false` then. A
    /// frame that is longer than a whole response is sent as its only one.
    fn ensure_body_capacity(
        &mut self,
        wire: &mut impl Wire,
        entry: &mut SessionEntry,
        bytes: u64,
    ) -> bool {
        if let Some(StreamBinding::Http {
            bytes_left,
            fresh: false,
        }) = entry.binding.as_deref()
        {
            if bytes + LOOP_BYTES > *bytes_left {
                self.send_loop(wire, entry, false);
                return false;
            }
        }
        true
    }

    /// Writes lines that are not data notifications, if there is a stream. Returns `false` if the
    /// connection does not accept them.
    pub(super) fn write_control_lines(
        &mut self,
        wire: &mut impl Wire,
        entry: &mut SessionEntry,
        lines: &[u8],
    ) -> bool {
        if lines.is_empty() || !self.ensure_body_capacity(wire, entry, lines.len() as u64) {
            return true;
        }
        let Some(framing) = entry.framing() else {
            return true;
        };
        if let Some(StreamBinding::Http { bytes_left, .. }) = entry.binding.as_deref_mut() {
            *bytes_left = bytes_left.saturating_sub(lines.len() as u64);
        }
        wire.send(entry.conn, framing.frame(lines))
    }

    /// Ends a stream with `LOOP`; the session remains for another bind. Returns `false` if the
    /// connection does not accept the line.
    pub(super) fn send_loop(
        &mut self,
        wire: &mut impl Wire,
        entry: &mut SessionEntry,
        close_socket: bool,
    ) -> bool {
        let Some(framing) = entry.framing() else {
            return true;
        };
        let pause_ms = entry.poll().map_or(0, |poll| poll.interval_ms);
        let mut line = Vec::new();
        write_loop(&mut line, pause_ms);
        let last = framing.frame(&line);
        let mut accepted = true;
        if close_socket {
            wire.close(entry.conn, Some(last), false);
            entry.conn = NO_CONNECTION;
        } else {
            accepted = wire.send(entry.conn, last);
            if framing == Framing::Chunk {
                // Another session may use the connection next.
                wire.set_tag(entry.conn, 0);
                wire.finish(entry.conn);
                entry.conn = NO_CONNECTION;
            }
        }
        self.unbind(wire, entry, pause_ms + self.unbound_ms, false);
        accepted
    }

    /// Waits for another bind. `lost`: the stream ended without `LOOP`.
    pub(super) fn unbind(
        &mut self,
        wire: &mut impl Wire,
        entry: &mut SessionEntry,
        wait_ms: u64,
        lost: bool,
    ) {
        if entry.is_bound() {
            self.unbound += 1;
        }
        let until_ms = wire.now_ms().saturating_add(wait_ms);
        entry.binding = Some(Box::new(StreamBinding::Unbound { until_ms, lost }));
        entry.arm(wire);
    }

    /// Binds a session to a stream connection. `window` is set if the connection accepts compressed
    /// messages.
    pub(super) fn bind(
        &mut self,
        entry: &mut SessionEntry,
        binding: Option<Box<StreamBinding>>,
        window: Option<DeflateWindow>,
    ) {
        if !entry.is_bound() {
            self.unbound -= 1;
        }
        entry.binding = binding;
        entry.window = window;
        if let Some(journal) = &mut entry.journal {
            journal.begin_stream();
        }
    }

    /// Sends queued frames as far as the connection accepts them. Returns `true` if all were sent.
    pub(super) fn drain_pending(&mut self, wire: &mut impl Wire, entry: &mut SessionEntry) -> bool {
        let now_ms = wire.now_ms();
        let mut wrote = false;
        loop {
            let next = entry.journal.as_ref().and_then(|one| one.next_unsent());
            let Some(message) = next.cloned() else { break };
            let frame = Frame::from_message(message);
            let sent = self.transmit(wire, entry, &frame, QueuePolicy::Deferrable);
            if sent != Some(TrySend::Queued) {
                return false;
            }
            entry.journal_mut().advance(now_ms);
            wrote = true;
        }
        if wrote {
            entry.core.wrote(now_ms);
            self.trim_journal(entry, now_ms);
        }
        true
    }

    fn queue_unsent(&mut self, entry: &mut SessionEntry, frame: &Frame, count: u32) -> TrySend {
        let journal = entry.journal_mut();
        let bytes = journal.bytes();
        if !journal.push_unsent(frame.message(), count, self.unbound_bytes_max) {
            return TrySend::Closed;
        }
        self.journal_bytes += journal.bytes() - bytes;
        entry.core.count_data(count.into());
        TrySend::Queued
    }

    fn record_sent(&mut self, entry: &mut SessionEntry, frame: &Frame, count: u32, now_ms: u64) {
        // Clients without an SDK (`/sse`, `/ws`) do not recover their sessions.
        if self.limits.bytes == 0 || entry.event_form.is_some() {
            return;
        }
        let journal = entry.journal_mut();
        let bytes = journal.bytes();
        journal.push_sent(frame.message(), count, now_ms, self.limits);
        self.journal_bytes = self.journal_bytes + journal.bytes() - bytes;
    }

    pub(super) fn trim_journal(&mut self, entry: &mut SessionEntry, now_ms: u64) {
        let Some(journal) = &mut entry.journal else {
            return;
        };
        let bytes = journal.bytes();
        journal.trim(now_ms, self.limits);
        self.journal_bytes -= bytes - journal.bytes();
        if journal.is_empty() {
            entry.journal = None;
        }
    }

    pub(super) fn forget(&mut self, entry: &mut SessionEntry) {
        self.journal_bytes -= entry.journal.take().map_or(0, |one| one.bytes());
        if !entry.is_bound() {
            self.unbound -= 1;
        }
    }

    /// Logs an update that is too long for its client, at most once per interval.
    pub(super) fn note_too_long(&mut self, entry: &SessionEntry, bytes: usize, now_ms: u64) {
        const LOG_INTERVAL_MS: u64 = 10_000;
        if now_ms < self.too_long_log_ms {
            return;
        }
        self.too_long_log_ms = now_ms + LOG_INTERVAL_MS;
        let (session, bytes_max) = (entry.core.id(), entry.line_max);
        tracing::warn!(
            %session, bytes, bytes_max,
            "dropped an update that is too long for its client; further ones are only counted"
        );
    }
}

/// The writer with the connections of its shard, as `weir-fanout` uses them.
pub(super) struct ClientOutput<'a, W> {
    pub(super) wire: &'a mut W,
    pub(super) writer: &'a mut SessionWriter,
}

impl<W: Wire> Output for ClientOutput<'_, W> {
    type Session = SessionEntry;
    type Frame = Frame;

    fn now_ms(&self) -> u64 {
        self.wire.now_ms()
    }

    fn set_timer(&mut self, at_ms: u64) {
        self.wire.set_timer(at_ms, SESSION_TIMERS);
    }

    #[inline]
    fn send(
        &mut self,
        session: &mut SessionEntry,
        frame: &Frame,
        policy: QueuePolicy,
    ) -> SendOutcome {
        match self.writer.write_data(self.wire, session, frame, 1, policy) {
            TrySend::Queued => SendOutcome::Queued,
            TrySend::Full => SendOutcome::Full,
            TrySend::Closed => SendOutcome::Closed,
        }
    }

    fn notify_writable(&mut self, session: &SessionEntry) {
        self.wire.notify_writable(session.conn);
    }

    fn note_too_long(&mut self, session: &SessionEntry, bytes: usize) {
        let now_ms = self.wire.now_ms();
        self.writer.note_too_long(session, bytes, now_ms);
    }
}
