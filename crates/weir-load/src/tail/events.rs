//! Events of a followed subscription.

/// An event of the session. Items are numbered from 0, in the order of the options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailEvent<'a> {
    /// The subscription is active.
    Subscribed,
    /// All values of an item after an update.
    Update {
        /// Index of the item.
        item: usize,
        /// Values in the order of the fields.
        values: Vec<Option<&'a str>>,
        /// The update is part of the state at the time of the subscription.
        is_snapshot: bool,
    },
    /// The server dropped updates of an item, because the client or a limit is too slow.
    Lost {
        /// Index of the item.
        item: usize,
        /// Number of updates.
        count: u64,
    },
    /// The list or table of an item was cleared.
    Cleared {
        /// Index of the item.
        item: usize,
    },
    /// The connection or the session ended; another one is opened.
    Disconnected {
        /// Text for the log.
        reason: &'a str,
    },
}

/// Reason for which following ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailEnd {
    /// By the caller.
    Stopped,
    /// The server ended the subscription or the session for good.
    ByServer(String),
}

/// Reason for the end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndReason {
    pub(super) text: String,
    /// Another attempt may succeed.
    pub(super) is_transient: bool,
}

impl EndReason {
    pub(super) fn transient(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_transient: true,
        }
    }

    pub(super) fn permanent(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_transient: false,
        }
    }
}
