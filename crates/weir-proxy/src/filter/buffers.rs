//! Memory that filters work in, one per thread, and what they have done.

use std::ops::Range;
use std::time::Duration;

use weir_kafka::records::{BatchCompressor, DecompressBuffer};
use weir_kafka::wire::byte_edits::ByteEdits;
use weir_kafka::wire::layout::MessageLayout;

use super::record::Changes;

/// Bounds of the work on one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterLimits {
    /// Bytes that one batch may unpack to, or grow to.
    pub batch_bytes: usize,
    /// Bytes that the batches of one frame may unpack to, or be rebuilt to, together.
    pub frame_bytes: usize,
    /// Records of one frame.
    pub frame_records: usize,
    /// CPU time of one frame.
    pub frame_cpu: Duration,
}

impl Default for FilterLimits {
    fn default() -> Self {
        Self {
            batch_bytes: 32 << 20,
            frame_bytes: 256 << 20,
            frame_records: 1_000_000,
            frame_cpu: Duration::from_secs(2),
        }
    }
}

/// Where frames are worked on: one per thread, kept from frame to frame.
#[derive(Debug)]
pub struct FilterBuffers {
    /// Memory of the last [`Work`](super::Work) done here, for the next.
    pub(super) layout: MessageLayout,
    pub(super) patches: ByteEdits,
    pub(super) frame: Vec<u8>,
    pub(super) tools: BatchBuffers,
    pub(super) tally: FilterCounts,
    turn_units: u64,
}

impl FilterBuffers {
    /// Returns a workspace whose work has these bounds.
    #[must_use]
    pub fn new(limits: FilterLimits) -> Self {
        Self {
            layout: MessageLayout::default(),
            patches: ByteEdits::default(),
            frame: Vec::new(),
            tools: BatchBuffers {
                scratch: DecompressBuffer::new(limits.batch_bytes),
                packer: BatchCompressor::default(),
                room: ReplacementBuffer::default(),
                rows: Vec::new(),
                plain: Vec::new(),
                limits,
                meter: MemoryMeter::unlimited(),
                unpacked_bytes: 0,
            },
            tally: FilterCounts::default(),
            turn_units: TURN_UNITS,
        }
    }

    /// The frame to send instead, after [`Pass::Rebuilt`](super::Pass::Rebuilt): size and all.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Takes the frame to send instead, without a copy.
    #[must_use]
    pub fn take_frame(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.frame)
    }

    /// What has been done since it was last taken.
    pub fn take_tally(&mut self) -> FilterCounts {
        self.tally.values_unreadable += std::mem::take(&mut self.tools.room.unreadable);
        std::mem::take(&mut self.tally)
    }

    /// Begins a new turn of an event loop: what may be done at once is counted anew.
    pub fn begin_turn(&mut self) {
        self.turn_units = TURN_UNITS;
    }

    /// Allows what an event loop may do at once.
    pub(super) fn allow_at_once(&mut self) {
        let units = AT_ONCE_UNITS.min(self.turn_units);
        self.tools.meter = MemoryMeter::at_once(units);
    }

    /// Counts what was done at once.
    pub(super) fn count_at_once(&mut self) {
        self.turn_units -= AT_ONCE_UNITS.min(self.turn_units) - self.tools.meter.units_left;
    }

    /// Allows work until `meter` stops it.
    pub(crate) fn allow(&mut self, meter: MemoryMeter) {
        self.tools.meter = meter;
    }

    /// Gives memory back that only a large frame needed.
    pub(crate) fn tidy(&mut self) {
        self.patches.clear(KEEP_BYTES);
        self.layout.shrink(KEEP_ROWS);
        self.frame.clear();
        self.frame.shrink_to(KEEP_BYTES);
        self.tools.tidy();
    }
}

impl Default for FilterBuffers {
    fn default() -> Self {
        Self::new(FilterLimits::default())
    }
}

/// How much may be done before the work on a frame stops, to go on later.
///
/// Units stand for time: one per byte, and more for what costs more than its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryMeter {
    /// A batch that unpacks to more is left for later.
    pub(crate) batch_bytes: usize,
    units_left: u64,
    /// CPU time of the thread in microseconds.
    cpu_us: fn() -> u64,
    /// Between batches the work stops from here on.
    pause_at_us: u64,
    /// The batch is given up from here on: the frame has had its CPU time.
    stop_at_us: u64,
    calls: u32,
}

impl MemoryMeter {
    pub(super) fn unlimited() -> Self {
        Self {
            batch_bytes: usize::MAX,
            units_left: u64::MAX,
            cpu_us: || 0,
            pause_at_us: u64::MAX,
            stop_at_us: u64::MAX,
            calls: 0,
        }
    }

    fn at_once(units_left: u64) -> Self {
        Self {
            batch_bytes: AT_ONCE_BATCH_BYTES,
            units_left,
            ..Self::unlimited()
        }
    }

    /// Returns a meter for a thread that does nothing else. `left` is the frame's CPU time.
    pub(crate) fn timed(
        cpu_us: fn() -> u64,
        batch_bytes: usize,
        pause: Duration,
        left: Duration,
    ) -> Self {
        let (now_us, us) = (cpu_us(), |time: Duration| time.as_micros() as u64);
        Self {
            batch_bytes,
            cpu_us,
            pause_at_us: now_us.saturating_add(us(pause)),
            stop_at_us: now_us.saturating_add(us(left)),
            ..Self::unlimited()
        }
    }

    /// Takes units; `false` if there are not so many left.
    pub(super) fn take(&mut self, units: u64) -> bool {
        let has = self.units_left >= units;
        if has && self.units_left < u64::MAX {
            self.units_left -= units;
        }
        has
    }

    /// Takes units that have been used already.
    pub(super) fn charge(&mut self, units: u64) {
        if self.units_left < u64::MAX {
            self.units_left = self.units_left.saturating_sub(units);
        }
    }

    /// Returns `true` if the work is to stop before the next batch.
    pub(super) fn is_due(&self) -> bool {
        self.units_left == 0 || (self.pause_at_us < u64::MAX && (self.cpu_us)() >= self.pause_at_us)
    }

    /// Returns `false` once the frame has had its CPU time. Looks at the clock now and then only.
    pub(super) fn may_proceed(&mut self) -> bool {
        if self.stop_at_us == u64::MAX {
            return true;
        }
        self.calls = self.calls.wrapping_add(1);
        self.calls % CALLS_PER_LOOK != 0 || (self.cpu_us)() < self.stop_at_us
    }
}

/// What the work on one batch takes.
#[derive(Debug)]
pub(super) struct BatchBuffers {
    pub(super) scratch: DecompressBuffer,
    pub(super) packer: BatchCompressor,
    pub(super) room: ReplacementBuffer,
    /// Records of the batch that changed their length, by their place in it.
    pub(super) rows: Vec<(usize, Changes)>,
    /// The batch's records, unpacked, with those changes.
    pub(super) plain: Vec<u8>,
    pub(super) limits: FilterLimits,
    pub(super) meter: MemoryMeter,
    /// Bytes of the last batch's records, unpacked.
    pub(super) unpacked_bytes: usize,
}

impl BatchBuffers {
    #[cfg(test)]
    pub(super) fn held_bytes(&mut self) -> usize {
        let rows = self.rows.capacity() * size_of::<(usize, Changes)>();
        let room = self.room.bytes.capacity() + self.room.fresh.capacity();
        self.scratch.held_bytes() + self.plain.capacity() + room + rows
    }

    fn tidy(&mut self) {
        self.scratch.shrink(KEEP_BYTES);
        let ReplacementBuffer { bytes, fresh, .. } = &mut self.room;
        for buffer in [&mut self.plain, bytes, fresh] {
            buffer.clear();
            buffer.shrink_to(KEEP_BYTES);
        }
        self.rows.clear();
        self.rows.shrink_to(KEEP_ROWS);
    }
}

/// Values and headers that are longer or shorter than those they replace.
#[derive(Debug, Default)]
pub(super) struct ReplacementBuffer {
    pub(super) bytes: Vec<u8>,
    /// What is being written.
    pub(super) fresh: Vec<u8>,
    pub(super) unreadable: u64,
}

impl ReplacementBuffer {
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

/// What filters have done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilterCounts {
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
    /// Partitions of fetch responses that end early: the consumer fetches the rest next.
    pub partitions_cut: u64,
    /// Partitions refused, withheld or cut for a limit.
    pub limited: u64,
}

impl FilterCounts {
    /// Adds what others did.
    pub(crate) fn add(&mut self, more: &Self) {
        self.batches += more.batches;
        self.batches_edited += more.batches_edited;
        self.batches_rebuilt += more.batches_rebuilt;
        self.records += more.records;
        self.values_unreadable += more.values_unreadable;
        self.partitions_refused += more.partitions_refused;
        self.partitions_withheld += more.partitions_withheld;
        self.partitions_cut += more.partitions_cut;
        self.limited += more.limited;
    }
}

/// Bytes that a batch may unpack to on an event loop.
const AT_ONCE_BATCH_BYTES: usize = 256 << 10;
/// What may be done at once for one frame, and for all frames of one turn: a few milliseconds.
const AT_ONCE_UNITS: u64 = 512 << 10;
const TURN_UNITS: u64 = 1 << 20;
/// Questions whether to proceed per look at the clock, which is a system call.
const CALLS_PER_LOOK: u32 = 16;
/// Kept in each buffer between frames.
const KEEP_BYTES: usize = 1 << 20;
const KEEP_ROWS: usize = 4096;
