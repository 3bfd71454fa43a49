//! Client messages of one session, and those of a shard that are on their way to Kafka.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_fanout::SessionKey;
use weir_identity::rules::{MessageGrant, MessageRights};
use weir_tlcp::codes::ControlCode;
use weir_tlcp::server::{MessageOrder, SequenceId};

use crate::messages::{InFlight, MessageSender};
use weir_access::RateBucket;

/// Client messages of one session; absent until its first message that a rule covers.
#[derive(Debug)]
pub(in crate::shard) struct SessionMessages {
    pub(super) sender: Arc<MessageSender>,
    pub(super) order: MessageOrder<ReadyMessage>,
    /// Messages without a number that have no outcome yet.
    pub(super) unnumbered: usize,
    /// Rates by rule.
    rates: SmallVec<[(usize, RateBucket); 1]>,
}

/// A message that its session may send as soon as it is its turn.
#[derive(Debug)]
pub(super) struct ReadyMessage {
    pub(super) text: Box<str>,
    pub(super) grant: MessageGrant,
    /// `true` if the client wants `MSGDONE` or `MSGFAIL`.
    pub(super) has_outcome: bool,
    /// Memory of the message; code and text with which it fails if there is none.
    pub(super) share: Result<InFlight, (ControlCode, &'static str)>,
}

/// A message that waits for its result.
#[derive(Debug, Clone, Copy)]
pub(in crate::shard) struct PendingMessage {
    pub(in crate::shard) session: SessionKey,
    pub(in crate::shard) sequence: SequenceId,
    pub(in crate::shard) prog: Option<u32>,
    pub(super) has_outcome: bool,
    pub(super) rule: usize,
    pub(in crate::shard) began_ms: u64,
}

impl SessionMessages {
    /// Gives the session the rights of a new token. Messages on their way keep theirs.
    pub(super) fn set_rights(&mut self, rights: &Arc<MessageRights>) {
        let sender = MessageSender {
            rights: Arc::clone(rights),
            handle: self.sender.handle.clone(),
        };
        self.sender = Arc::new(sender);
    }

    /// Creates the state of a session with this handle.
    pub(super) fn new(rights: &Arc<MessageRights>, handle: String) -> Self {
        let sender = MessageSender {
            rights: Arc::clone(rights),
            handle: handle.into(),
        };
        Self {
            sender: Arc::new(sender),
            order: MessageOrder::default(),
            unnumbered: 0,
            rates: SmallVec::new(),
        }
    }

    /// Returns the number of messages without an outcome.
    pub(super) fn pending(&self) -> usize {
        self.order.pending() + self.unnumbered
    }

    /// Takes one message of the session; returns `false` if the rule's rate is exceeded.
    pub(super) fn take(&mut self, rule: usize, rate: f64, now_ms: u64) -> bool {
        let rate = rate as f32;
        let index = self.rates.iter().position(|one| one.0 == rule);
        let index = index.unwrap_or_else(|| {
            self.rates.push((rule, RateBucket::full(rate, now_ms)));
            self.rates.len() - 1
        });
        self.rates[index].1.take(rate, now_ms)
    }

    /// Returns the earliest time at which missing messages are skipped.
    pub(in crate::shard) fn next_timeout_ms(&self) -> Option<u64> {
        self.order.next_timeout_ms()
    }
}
