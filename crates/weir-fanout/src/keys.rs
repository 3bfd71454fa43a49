//! Keys of a shard's tables.

/// Key of a session of this shard. The serial distinguishes sessions that use the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// Slot of the session.
    pub index: u32,
    /// Use count of the slot; never 0.
    pub serial: u32,
}

impl SessionKey {
    /// Returns the key as a number that is never 0, for connection tags and timers.
    pub fn to_bits(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.index)
    }

    /// Returns the key of which [`Self::to_bits`] returned `bits`.
    pub fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            serial: (bits >> 32) as u32,
        }
    }
}

/// Position of a subscriber in the item table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberSlot {
    /// Slot of the item.
    pub slot: u32,
    /// Index in the member list of the class. It changes when another member leaves.
    pub member: u32,
}

/// Number of a subscription, and position of an item in it, from 1.
pub type ItemAt = (u32, u32);
