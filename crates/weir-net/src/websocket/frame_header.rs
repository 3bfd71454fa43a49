//! Parser of frame headers (RFC 6455, 5.2).

use super::error::FrameError;
use super::frame::{
    CONTROL_BYTES_MAX, FIN_BIT, FrameRole, LEN_16, LEN_64, MASK_BIT, Opcode, RSV1_BIT,
};

/// Maximum header length: two bytes, an eight-byte length, a mask.
pub(super) const MASKED_HEADER_BYTES_MAX: usize = 14;

/// A frame header. Checks that depend on earlier frames are up to the reader.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHeader {
    pub(super) fin: bool,
    /// First frame of a compressed message.
    pub(super) deflated: bool,
    pub(super) opcode: Opcode,
    pub(super) len: u64,
    pub(super) mask: Option<[u8; 4]>,
    pub(super) bytes: usize,
}

impl FrameHeader {
    /// Parses the header at the front of `input`. Returns `None` while it is incomplete. `deflate`
    /// allows compressed messages.
    pub(super) fn parse(
        input: &[u8],
        role: FrameRole,
        deflate: bool,
    ) -> Result<Option<Self>, FrameError> {
        let [first, second, rest @ ..] = input else {
            return Ok(None);
        };
        let deflated = first & RSV1_BIT != 0;
        if first & OTHER_RSV_BITS != 0 || (deflated && !deflate) {
            return Err(FrameError::ReservedBits);
        }
        let opcode = first & 0x0F;
        let opcode = Opcode::from_bits(opcode).ok_or(FrameError::UnknownOpcode(opcode))?;
        if opcode == Opcode::Binary {
            return Err(FrameError::Binary);
        }
        if deflated && opcode != Opcode::Text {
            return Err(FrameError::ReservedBits);
        }
        let masked = second & MASK_BIT != 0;
        match (role, masked) {
            (FrameRole::Server, false) => return Err(FrameError::Unmasked),
            (FrameRole::Client, true) => return Err(FrameError::Masked),
            _ => {}
        }
        let fin = first & FIN_BIT != 0;
        let short_len = second & !MASK_BIT;
        if opcode.is_control() && !fin {
            return Err(FrameError::FragmentedControl);
        }
        if opcode.is_control() && usize::from(short_len) > CONTROL_BYTES_MAX {
            return Err(FrameError::ControlTooLong);
        }
        let Some((len, len_bytes)) = extended_len(short_len, rest)? else {
            return Ok(None);
        };
        let mask = match (masked, rest.get(len_bytes..len_bytes + 4)) {
            (false, _) => None,
            (true, Some(&[a, b, c, d])) => Some([a, b, c, d]),
            (true, _) => return Ok(None),
        };
        Ok(Some(Self {
            fin,
            deflated,
            opcode,
            len,
            mask,
            bytes: 2 + len_bytes + if masked { 4 } else { 0 },
        }))
    }
}

/// Returns the payload length and the number of extra bytes it took. Rejects lengths that are not
/// in their shortest form (5.2).
fn extended_len(short_len: u8, rest: &[u8]) -> Result<Option<(u64, usize)>, FrameError> {
    let (len, bytes, min) = match short_len {
        LEN_16 => match rest.first_chunk::<2>() {
            Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 2, 126),
            None => return Ok(None),
        },
        LEN_64 => match rest.first_chunk::<8>() {
            Some(bytes) => (u64::from_be_bytes(*bytes), 8, 0x1_0000),
            None => return Ok(None),
        },
        short => (u64::from(short), 0, 0),
    };
    if len < min || len > i64::MAX as u64 {
        return Err(FrameError::BadLength);
    }
    Ok(Some((len, bytes)))
}

const OTHER_RSV_BITS: u8 = 0x30;
