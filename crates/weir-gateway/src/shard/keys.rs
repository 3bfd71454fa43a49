//! Keys of a shard's tables.

/// Key of a session of this shard. The serial distinguishes sessions that use the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    pub(super) index: u32,
    pub(super) serial: u32,
}

impl SessionKey {
    /// Returns the key as a number that is never 0, for connection tags and timers.
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.index)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            serial: (bits >> 32) as u32,
        }
    }
}

/// Position of a subscriber in the item table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberSlot {
    pub(super) slot: u32,
    /// Index in the member list of the class. It changes when another member leaves.
    pub(super) member: u32,
}

/// Number of a subscription, and position of an item in it, from 1.
pub(super) type ItemAt = (u32, u32);
