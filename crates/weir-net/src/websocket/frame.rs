//! Frame writers: headers of server text messages, and whole frames appended to a buffer.

/// End of the connection that reads.
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

/// Writes the header of an unfragmented server text message of `len` payload bytes to the front
/// of `header` and returns its length (2, 4 or 10).
pub fn encode_server_text_header(len: usize, header: &mut [u8; HEADER_BYTES_MAX]) -> usize {
    encode_header(Opcode::Text, 0, len, header)
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

/// Returns the payload of a frame written by [`push_server_frame`].
pub fn server_text_payload(frame: &[u8]) -> &[u8] {
    let header_len = match frame.get(1) {
        Some(126) => 4,
        Some(127) => 10,
        _ => 2,
    };
    frame.get(header_len..).unwrap_or_default()
}

/// Appends one unfragmented, unmasked frame, as servers send them.
pub fn push_server_frame(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8]) {
    let mut header = [0; HEADER_BYTES_MAX];
    let header_len = encode_header(opcode, 0, payload.len(), &mut header);
    out.reserve(header_len + payload.len());
    out.extend_from_slice(&header[..header_len]);
    out.extend_from_slice(payload);
}

/// Appends one unfragmented frame masked with `mask`, as clients send them. The mask must be
/// unpredictable to the author of the payload (RFC 6455, 10.3); a load client may use a simpler
/// one.
pub fn push_client_frame(out: &mut Vec<u8>, opcode: Opcode, mask: [u8; 4], payload: &[u8]) {
    let mut header = [0; HEADER_BYTES_MAX];
    let header_len = encode_header(opcode, MASK_BIT, payload.len(), &mut header);
    out.reserve(header_len + mask.len() + payload.len());
    out.extend_from_slice(&header[..header_len]);
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(payload);
    apply_mask(&mut out[start..], mask, 0);
}

/// Appends a close frame with `code` and `reason`; `mask` is `Some` on a client. Truncates the
/// reason at a character boundary so that the payload fits into the 125 bytes of a control frame.
pub fn push_close(out: &mut Vec<u8>, mask: Option<[u8; 4]>, code: u16, reason: &str) {
    let mut end = reason.len().min(CONTROL_BYTES_MAX - 2);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let mut payload = [0; CONTROL_BYTES_MAX];
    payload[..2].copy_from_slice(&code.to_be_bytes());
    payload[2..2 + end].copy_from_slice(&reason.as_bytes()[..end]);
    push_control(out, Opcode::Close, mask, &payload[..2 + end]);
}

/// Appends the pong in response to a ping with this `payload`; `mask` is `Some` on a client. Drops
/// bytes beyond the 125 of a control frame.
pub fn push_pong(out: &mut Vec<u8>, mask: Option<[u8; 4]>, payload: &[u8]) {
    let end = payload.len().min(CONTROL_BYTES_MAX);
    push_control(out, Opcode::Pong, mask, &payload[..end]);
}

fn push_control(out: &mut Vec<u8>, opcode: Opcode, mask: Option<[u8; 4]>, payload: &[u8]) {
    match mask {
        Some(mask) => push_client_frame(out, opcode, mask, payload),
        None => push_server_frame(out, opcode, payload),
    }
}

fn encode_header(
    opcode: Opcode,
    mask_bit: u8,
    len: usize,
    header: &mut [u8; HEADER_BYTES_MAX],
) -> usize {
    header[0] = FIN_BIT | opcode as u8;
    match len {
        0..=125 => {
            // The range of this arm fits into a byte.
            header[1] = mask_bit | len as u8;
            2
        }
        126..=0xFFFF => {
            header[1] = mask_bit | LEN_16;
            header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            4
        }
        _ => {
            header[1] = mask_bit | LEN_64;
            header[2..10].copy_from_slice(&(len as u64).to_be_bytes());
            10
        }
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
