//! Memory that filters work in, one per thread, and what they have done.

use std::ops::Range;

use weir_kafka::records::{Packer, Scratch};
use weir_kafka::wire::layout::Layout;
use weir_kafka::wire::patch::Patches;

use super::record::Changes;

/// Where frames are worked on: one per thread, kept from frame to frame.
#[derive(Debug)]
pub struct Workspace {
    pub(super) layout: Layout,
    pub(super) patches: Patches,
    pub(super) frame: Vec<u8>,
    pub(super) tools: Tools,
    pub(super) tally: Tally,
}

impl Workspace {
    /// A batch that unpacks to more than `unpacked_bytes_max`, or grows to it, is refused.
    #[must_use]
    pub fn new(unpacked_bytes_max: usize) -> Self {
        Self {
            layout: Layout::default(),
            patches: Patches::default(),
            frame: Vec::new(),
            tools: Tools {
                scratch: Scratch::new(unpacked_bytes_max),
                packer: Packer::default(),
                room: Room::default(),
                rows: Vec::new(),
                plain: Vec::new(),
                bytes_max: unpacked_bytes_max,
            },
            tally: Tally::default(),
        }
    }

    /// The frame to send instead, after [`Pass::Rebuilt`](super::Pass::Rebuilt): size and all.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// What has been done since it was last taken.
    pub fn take_tally(&mut self) -> Tally {
        self.tally.values_unreadable += std::mem::take(&mut self.tools.room.unreadable);
        std::mem::take(&mut self.tally)
    }

    /// Ready for the next frame; memory that only a large one needed is given back.
    pub(super) fn begin(&mut self) {
        self.patches.clear(KEEP_BYTES);
        self.frame.clear();
        self.frame.shrink_to(KEEP_BYTES);
        let tools = &mut self.tools;
        tools.scratch.shrink(KEEP_BYTES);
        for buffer in [
            &mut tools.plain,
            &mut tools.room.bytes,
            &mut tools.room.fresh,
        ] {
            buffer.clear();
            buffer.shrink_to(KEEP_BYTES);
        }
        tools.rows.clear();
        tools.rows.shrink_to(KEEP_ROWS);
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new(UNPACKED_BYTES_MAX)
    }
}

/// What the work on one batch takes.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) scratch: Scratch,
    pub(super) packer: Packer,
    pub(super) room: Room,
    /// Records of the batch that changed their length, by their place in it.
    pub(super) rows: Vec<(usize, Changes)>,
    /// The batch's records, unpacked, with those changes.
    pub(super) plain: Vec<u8>,
    pub(super) bytes_max: usize,
}

/// Values and headers that are longer or shorter than those they replace.
#[derive(Debug, Default)]
pub(super) struct Room {
    pub(super) bytes: Vec<u8>,
    /// What is being written.
    pub(super) fresh: Vec<u8>,
    pub(super) unreadable: u64,
}

impl Room {
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

/// What filters have done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Batches whose records were read.
    pub batches: u64,
    /// Of these, batches changed where they lay.
    pub batches_edited: u64,
    /// Of these, batches written anew: another length, or compressed.
    pub batches_rebuilt: u64,
    /// Records read.
    pub records: u64,
    /// Values that a filter could not read, such as text that is not UTF-8.
    pub values_unreadable: u64,
    /// Partitions of produce requests that were refused.
    pub partitions_refused: u64,
    /// Partitions of fetch answers that were withheld, because they could not be opened.
    pub partitions_withheld: u64,
}

/// Brokers take batches of 1 MiB unless told otherwise; this leaves room for good compression.
const UNPACKED_BYTES_MAX: usize = 64 << 20;
/// Kept in each buffer between frames.
const KEEP_BYTES: usize = 1 << 20;
const KEEP_ROWS: usize = 4096;
