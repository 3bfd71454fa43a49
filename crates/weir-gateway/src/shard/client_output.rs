//! Sessions and connections as fan-out uses them.

use weir_fanout::{
    ItemSubscription, Output, QueuePolicy, SendOutcome, SessionKey, SessionTable, SharedFrame,
    Subscriber,
};
use weir_net::server::TrySend;
use weir_tlcp::server::TokenBucket;

use super::frame::Frame;
use super::session::{SessionEntry, Sessions};
use super::session_writer::SessionWriter;
use super::timers::SESSION_TIMERS;
use super::wire::Wire;

/// The connections of a shard, with the writer that frames and stores what is sent on them.
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
        match self.writer.data(self.wire, session, frame, 1, policy) {
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

impl SharedFrame for Frame {
    fn of(lines: &[u8]) -> Self {
        Self::of(lines)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn line_bytes(&self) -> usize {
        self.lines().len()
    }
}

impl SessionTable<SessionEntry> for Sessions {
    #[inline]
    fn get_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.get_mut(key)
    }
}

impl Subscriber for SessionEntry {
    fn line_max(&self) -> u32 {
        self.line_max
    }

    fn bandwidth_mut(&mut self) -> Option<&mut TokenBucket> {
        self.bandwidth.as_deref_mut()
    }

    fn subscription(&self, sub_id: u32) -> Option<&ItemSubscription> {
        Some(&self.core.subscription(sub_id)?.handle)
    }

    fn subscription_mut(&mut self, sub_id: u32) -> Option<&mut ItemSubscription> {
        Some(&mut self.core.subscription_mut(sub_id)?.handle)
    }
}
