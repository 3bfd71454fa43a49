//! Frame sizes and limits.

use weir_kafka::wire::WireError;

/// Bytes of the size prefix of a frame.
pub(crate) const SIZE_BYTES: usize = 4;

/// Limits of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Maximum bytes of a request.
    pub request_bytes: usize,
    /// Maximum bytes of a buffered frame. Frames are buffered if their content may change.
    pub buffered_frame_bytes: usize,
    /// Maximum number of in-flight requests per connection; further ones are not read.
    pub in_flight_requests: usize,
}

/// Appends to a frame of `total` bytes that arrives in pieces. The capacity at most doubles each
/// time, whatever size the frame announces.
pub(super) fn grow(frame: &mut Vec<u8>, bytes: &[u8], total: usize) {
    let length = frame.len() + bytes.len();
    if frame.capacity() < length {
        let grown = length.max(2 * frame.len()).min(total.max(length));
        frame.reserve_exact(grown - frame.len());
    }
    frame.extend_from_slice(bytes);
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
    if length > limit {
        return Err(WireError::FrameTooLarge {
            bytes: length as u64,
            bytes_max: limit,
        });
    }
    Ok(Some(SIZE_BYTES + length))
}
