//! Keys into the tables of a shard.

/// Names a session of this shard; the serial tells a slot's users apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    pub(super) index: u32,
    pub(super) serial: u32,
}

impl SessionKey {
    /// As a number that is never 0, for connection tags and timers.
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

/// Where a subscription's item stands in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberSlot {
    pub(super) slot: u32,
    /// Index in the class's member list; changes when another member leaves.
    pub(super) member: u32,
}
