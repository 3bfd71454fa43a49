//! The buffers of a filter thread, and the counters of its work.

use std::time::Duration;

use weir_wire::byte_edits::ByteEdits;
use weir_wire::layout::MessageLayout;
use weir_wire::records::{BatchCompressor, DecompressBuffer};

use crate::FilterCounts;
use crate::record::{Changes, ReplacementBuffer};

/// Limits on the filter work for one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterLimits {
    /// Bytes to which one batch may decompress or grow.
    pub batch_bytes: usize,
    /// Bytes to which all batches of one frame may decompress or grow.
    pub frame_bytes: usize,
    /// Records of all batches of one frame.
    pub frame_records: usize,
    /// CPU time for one frame.
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

/// The buffers of one thread, reused for every frame.
#[derive(Debug)]
pub struct FilterBuffers {
    /// Layout and edits of the last finished [`FilterWork`](crate::FilterWork), for reuse.
    pub(crate) layout: MessageLayout,
    pub(crate) edits: ByteEdits,
    pub(crate) frame: Vec<u8>,
    pub(crate) batch_buffers: BatchBuffers,
    pub(crate) counts: FilterCounts,
    iteration_units: u64,
}

impl FilterBuffers {
    /// Creates empty buffers.
    pub fn new(limits: FilterLimits) -> Self {
        Self {
            layout: MessageLayout::default(),
            edits: ByteEdits::default(),
            frame: Vec::new(),
            batch_buffers: BatchBuffers {
                scratch: DecompressBuffer::new(limits.batch_bytes),
                compressor: BatchCompressor::default(),
                replacements: ReplacementBuffer::default(),
                length_changes: Vec::new(),
                uncompressed: Vec::new(),
                limits,
                meter: WorkMeter::unlimited(),
                decompressed_bytes: 0,
            },
            counts: FilterCounts::default(),
            iteration_units: ITERATION_UNITS,
        }
    }

    /// Returns the rebuilt frame after [`FrameOutput::Rebuilt`](crate::FrameOutput::Rebuilt),
    /// including its size.
    #[cfg(any(test, fuzzing))]
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Takes the rebuilt frame, including its size.
    pub fn take_frame(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.frame)
    }

    /// Takes the counts since the last call.
    pub fn take_counts(&mut self) -> FilterCounts {
        self.counts.values_undecodable +=
            std::mem::take(&mut self.batch_buffers.replacements.undecodable);
        std::mem::take(&mut self.counts)
    }

    /// Starts a new iteration of an event loop and resets the work allowed in it.
    pub fn begin_iteration(&mut self) {
        self.iteration_units = ITERATION_UNITS;
    }

    /// Allows as much work as an event loop may do at once.
    pub(crate) fn allow_small_work(&mut self) {
        let units = SMALL_WORK_UNITS.min(self.iteration_units);
        self.batch_buffers.meter = WorkMeter::small(units);
    }

    /// Charges the work done at once to the iteration.
    pub(crate) fn count_small_work(&mut self) {
        self.iteration_units -=
            SMALL_WORK_UNITS.min(self.iteration_units) - self.batch_buffers.meter.units_left;
    }

    /// Allows work until `meter` stops it.
    pub fn set_meter(&mut self, meter: WorkMeter) {
        self.batch_buffers.meter = meter;
    }

    /// Releases memory that only a large frame needed.
    pub fn shrink(&mut self) {
        self.edits.clear(RETAINED_BYTES);
        self.layout.shrink(RETAINED_ROWS);
        self.frame.clear();
        self.frame.shrink_to(RETAINED_BYTES);
        self.batch_buffers.shrink();
    }
}

impl Default for FilterBuffers {
    fn default() -> Self {
        Self::new(FilterLimits::default())
    }
}

/// A meter that pauses or stops the work on a frame.
///
/// Units approximate time: one per byte, plus a fixed cost per record, batch, partition and topic.
#[derive(Debug, Clone, Copy)]
pub struct WorkMeter {
    /// A batch that decompresses to more bytes is deferred.
    pub batch_bytes: usize,
    units_left: u64,
    /// Clock: CPU time of the thread in microseconds.
    cpu_us: fn() -> u64,
    /// Time at which the work pauses between batches.
    pause_at_us: u64,
    /// Time at which the batch is rejected: the CPU time of the frame is used up.
    stop_at_us: u64,
    calls: u32,
}

impl WorkMeter {
    pub(crate) fn unlimited() -> Self {
        Self {
            batch_bytes: usize::MAX,
            units_left: u64::MAX,
            cpu_us: || 0,
            pause_at_us: u64::MAX,
            stop_at_us: u64::MAX,
            calls: 0,
        }
    }

    fn small(units_left: u64) -> Self {
        Self {
            batch_bytes: SMALL_WORK_BATCH_BYTES,
            units_left,
            ..Self::unlimited()
        }
    }

    /// Creates a meter for a filter thread. `left` is the remaining CPU time of the frame.
    pub fn timed(cpu_us: fn() -> u64, batch_bytes: usize, pause: Duration, left: Duration) -> Self {
        let (now_us, us) = (cpu_us(), |time: Duration| time.as_micros() as u64);
        Self {
            batch_bytes,
            cpu_us,
            pause_at_us: now_us.saturating_add(us(pause)),
            stop_at_us: now_us.saturating_add(us(left)),
            ..Self::unlimited()
        }
    }

    /// Takes units. Returns `false` if fewer are left.
    pub(crate) fn take(&mut self, units: u64) -> bool {
        let has = self.units_left >= units;
        if has && self.units_left < u64::MAX {
            self.units_left -= units;
        }
        has
    }

    /// Takes units for work that is already done.
    pub(crate) fn charge(&mut self, units: u64) {
        if self.units_left < u64::MAX {
            self.units_left = self.units_left.saturating_sub(units);
        }
    }

    /// Returns `true` if the work must pause before the next batch.
    pub(crate) fn is_due(&self) -> bool {
        self.units_left == 0 || (self.pause_at_us < u64::MAX && (self.cpu_us)() >= self.pause_at_us)
    }

    /// Returns `false` once the CPU time of the frame is used up. Reads the clock only every
    /// [`CALLS_PER_CLOCK_READ`] calls.
    pub(crate) fn may_proceed(&mut self) -> bool {
        if self.stop_at_us == u64::MAX {
            return true;
        }
        self.calls = self.calls.wrapping_add(1);
        self.calls % CALLS_PER_CLOCK_READ != 0 || (self.cpu_us)() < self.stop_at_us
    }
}

#[derive(Debug)]
pub(crate) struct BatchBuffers {
    pub(crate) scratch: DecompressBuffer,
    pub(crate) compressor: BatchCompressor,
    pub(crate) replacements: ReplacementBuffer,
    /// Records with changed lengths, by their index in the batch.
    pub(crate) length_changes: Vec<(usize, Changes)>,
    /// The decompressed records of the batch with these changes.
    pub(crate) uncompressed: Vec<u8>,
    pub(crate) limits: FilterLimits,
    pub(crate) meter: WorkMeter,
    /// Size of the last batch's records when decompressed.
    pub(crate) decompressed_bytes: usize,
}

impl BatchBuffers {
    #[cfg(test)]
    pub(crate) fn held_bytes(&mut self) -> usize {
        let changes = self.length_changes.capacity() * size_of::<(usize, Changes)>();
        let replacements = self.replacements.bytes.capacity() + self.replacements.fresh.capacity();
        self.scratch.allocated_bytes() + self.uncompressed.capacity() + replacements + changes
    }

    fn shrink(&mut self) {
        self.scratch.shrink(RETAINED_BYTES);
        let ReplacementBuffer { bytes, fresh, .. } = &mut self.replacements;
        for buffer in [&mut self.uncompressed, bytes, fresh] {
            buffer.clear();
            buffer.shrink_to(RETAINED_BYTES);
        }
        self.length_changes.clear();
        self.length_changes.shrink_to(RETAINED_ROWS);
    }
}

/// Bytes to which a batch may decompress on an event loop.
const SMALL_WORK_BATCH_BYTES: usize = 256 << 10;
/// Units of work at once for one frame, and for all frames of one iteration; a few milliseconds.
const SMALL_WORK_UNITS: u64 = 512 << 10;
const ITERATION_UNITS: u64 = 1 << 20;
/// Number of calls per reading of the clock, which is a system call.
const CALLS_PER_CLOCK_READ: u32 = 16;
/// Memory retained in each buffer between frames.
const RETAINED_BYTES: usize = 1 << 20;
const RETAINED_ROWS: usize = 4096;
