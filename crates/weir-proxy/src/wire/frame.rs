//! Frame sizes and limits.

use weir_wire::WireError;

/// Bytes of the size prefix of a frame.
pub(crate) const SIZE_BYTES: usize = 4;

/// The start of a frame whose action is not known yet. Uses no memory without one.
#[derive(Debug, Default)]
pub(super) struct PartialFrame {
    bytes: Vec<u8>,
    /// Bytes that are needed next.
    needed_bytes: usize,
}

impl PartialFrame {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Removes up to `count` bytes from the front.
    pub(super) fn take_front(&mut self, count: usize) -> Vec<u8> {
        if count >= self.bytes.len() {
            return self.take();
        }
        let rest = self.bytes.split_off(count);
        std::mem::replace(&mut self.bytes, rest)
    }

    /// Returns the size to which the start must grow, or 0 without one.
    pub(super) fn needed_bytes(&self) -> usize {
        match self.is_empty() {
            true => 0,
            false => self.needed_bytes,
        }
    }

    /// Returns the size that the frame announces, including the prefix, if it has arrived.
    pub(super) fn total(&self) -> Option<usize> {
        frame_total(&self.bytes, usize::MAX).ok().flatten()
    }

    /// Moves input from `at` on until there are `needed_bytes`. Returns `false` if the input ends
    /// before. The capacity at most doubles each time, whatever size the frame announces.
    pub(super) fn fill(&mut self, input: &[u8], at: &mut usize, needed_bytes: usize) -> bool {
        let missing = needed_bytes - self.bytes.len();
        let count = missing.min(input.len() - *at);
        let length = self.bytes.len() + count;
        if self.bytes.capacity() < length {
            let grown = length
                .max(2 * self.bytes.len())
                .min(needed_bytes.max(length));
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        self.bytes.extend_from_slice(&input[*at..*at + count]);
        self.needed_bytes = needed_bytes;
        *at += count;
        count == missing
    }
}

/// Returns the size that a frame announces, including the prefix, or `None` if the prefix is
/// incomplete.
pub(crate) fn frame_total(bytes: &[u8], limit: usize) -> Result<Option<usize>, WireError> {
    let Some(prefix) = bytes.first_chunk::<SIZE_BYTES>() else {
        return Ok(None);
    };
    let size = i32::from_be_bytes(*prefix);
    let length = usize::try_from(size).map_err(|_| WireError::Length {
        what: "frame size",
        value: i64::from(size),
    })?;
    check_size(length, limit)?;
    Ok(Some(SIZE_BYTES + length))
}

/// Returns an error if a frame has more than `bytes_max` bytes.
pub(super) fn check_size(bytes: usize, bytes_max: usize) -> Result<(), WireError> {
    let error = WireError::FrameTooLarge {
        bytes: bytes as u64,
        bytes_max,
    };
    (bytes <= bytes_max).then_some(()).ok_or(error)
}
