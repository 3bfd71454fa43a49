//! Writes WebSocket frames: appends whole frames of servers and clients to a buffer.

/// Side of the connection that reads frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameRole {
    /// Reads client frames, which are masked and whose text must be UTF-8.
    Server,
    /// Reads server frames, which are unmasked. Text is not checked for UTF-8; the code that splits
    /// it into lines and fields does that.
    Client,
}

/// Maximum header length of a server frame; a client frame has four more bytes of mask.
pub const HEADER_BYTES_MAX: usize = 10;

/// Frame type (RFC 6455, 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Further fragment of a message.
    Continuation = 0x0,
    /// UTF-8 text.
    Text = 0x1,
    /// Binary data; the reader rejects it with close code 1003.
    Binary = 0x2,
    /// End of the connection, with a code and a reason.
    Close = 0x8,
    /// Request for a pong with the same payload.
    Ping = 0x9,
    /// Response to a ping.
    Pong = 0xA,
}

impl Opcode {
    /// Returns the opcode with this number, `None` for reserved ones.
    pub(super) fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xA => Self::Pong,
            _ => return None,
        })
    }

    /// Returns `true` for control frames, which are never fragmented and have at most 125 bytes.
    pub(super) fn is_control(self) -> bool {
        self as u8 & 0x8 != 0
    }
}

/// Appends a server text message.
pub fn push_server_text(out: &mut Vec<u8>, payload: &[u8]) {
    push_server_frame(out, Opcode::Text, payload);
}

/// Appends a server text message with a payload compressed by [`Deflater`](super::Deflater).
pub fn push_deflated_server_text(out: &mut Vec<u8>, payload: &[u8]) {
    let start = out.len();
    push_server_frame(out, Opcode::Text, payload);
    out[start] |= RSV1_BIT;
}

/// Returns the payload of a server text message.
pub fn server_text_payload(frame: &[u8]) -> &[u8] {
    let header_len = match frame.get(1) {
        Some(126) => 4,
        Some(127) => 10,
        _ => 2,
    };
    frame.get(header_len..).unwrap_or_default()
}

pub(super) fn push_server_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    push_frame(out, opcode, None, payload);
}

/// Appends one unfragmented frame masked with `mask`, as clients send them. The mask must be
/// unpredictable to the author of the payload (RFC 6455, 10.3); a load client may use a simpler
/// one.
pub fn push_client_frame(out: &mut Vec<u8>, opcode: Opcode, mask: [u8; 4], payload: &[u8]) {
    push_frame(out, opcode, Some(mask), payload);
}

/// Appends a close frame with `code`; `mask` is `Some` on a client.
pub fn push_close(out: &mut Vec<u8>, mask: Option<[u8; 4]>, code: u16) {
    push_frame(out, Opcode::Close, mask, &code.to_be_bytes());
}

/// Appends the pong in response to a ping with this `payload`; `mask` is `Some` on a client. Drops
/// bytes beyond the 125 of a control frame.
pub fn push_pong(out: &mut Vec<u8>, mask: Option<[u8; 4]>, payload: &[u8]) {
    let end = payload.len().min(CONTROL_BYTES_MAX);
    push_frame(out, Opcode::Pong, mask, &payload[..end]);
}

fn push_frame(out: &mut Vec<u8>, opcode: Opcode, mask: Option<[u8; 4]>, payload: &[u8]) {
    let mask_bit = if mask.is_some() { MASK_BIT } else { 0 };
    let len = payload.len();
    out.reserve(HEADER_BYTES_MAX + mask.map_or(0, |mask| mask.len()) + len);
    out.push(FIN_BIT | opcode as u8);
    match len {
        // The ranges fit into the smaller types.
        0..=125 => out.push(mask_bit | len as u8),
        126..=0xFFFF => {
            out.push(mask_bit | LEN_16);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(mask_bit | LEN_64);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(mask.as_ref().map_or(&[], |mask| mask));
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply_mask(&mut out[start..], mask, 0);
    }
}

/// Masks or unmasks `bytes` in place; `offset` is the position of the first byte in the payload.
pub(super) fn apply_mask(bytes: &mut [u8], mask: [u8; 4], offset: usize) {
    let mut rotated = mask;
    rotated.rotate_left(offset % 4);
    let word = u64::from_ne_bytes([
        rotated[0], rotated[1], rotated[2], rotated[3], rotated[0], rotated[1], rotated[2],
        rotated[3],
    ]);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        chunk.copy_from_slice(&(u64::from_ne_bytes(eight) ^ word).to_ne_bytes());
    }
    for (byte, mask) in chunks
        .into_remainder()
        .iter_mut()
        .zip(rotated.iter().cycle())
    {
        *byte ^= mask;
    }
}

pub(super) const CONTROL_BYTES_MAX: usize = 125;
pub(super) const FIN_BIT: u8 = 0x80;
/// Marks a compressed message (RFC 7692, 6).
pub(super) const RSV1_BIT: u8 = 0x40;
pub(super) const MASK_BIT: u8 = 0x80;
pub(super) const LEN_16: u8 = 126;
pub(super) const LEN_64: u8 = 127;
