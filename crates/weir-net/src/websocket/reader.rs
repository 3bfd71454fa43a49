//! Incremental frame reader for arbitrary slices of a byte stream. It allocates memory only while a
//! frame is incomplete; the reader of an idle connection takes 24 bytes.

use super::error::FrameError;
use super::frame::{FrameRole, Opcode, apply_mask};
use super::frame_header::{FrameHeader, MASKED_HEADER_BYTES_MAX};

/// A complete message or control frame from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameEvent<'a> {
    /// A text message, reassembled from its fragments.
    Text(&'a [u8]),
    /// A compressed text message, if compression was negotiated. [`Inflater`](super::Inflater)
    /// returns its text, whose UTF-8 is not checked.
    Deflated(&'a [u8]),
    /// A ping; the response is a pong with the same payload.
    Ping(&'a [u8]),
    /// A pong, in response to a ping or unsolicited.
    Pong(&'a [u8]),
    /// A close frame. Any bytes after it must not be read.
    Close {
        /// Close code (RFC 6455, 7.4); `None` if the peer sent none.
        code: Option<u16>,
    },
}

/// Incremental reader of the frames of one connection.
#[derive(Debug)]
pub struct WebSocketFrameReader {
    limit: usize,
    partial: Option<Box<Partial>>,
    role: FrameRole,
    deflate: bool,
    /// Number of frames completed since [`Self::take_frames`].
    frames: u32,
}

impl WebSocketFrameReader {
    /// Creates a reader that rejects messages of more than `limit` bytes.
    pub fn new(role: FrameRole, limit: usize) -> Self {
        Self {
            limit,
            partial: None,
            role,
            deflate: false,
            frames: 0,
        }
    }

    /// Returns the number of frames of any type completed since the previous call. A client reader
    /// does not count unfragmented texts.
    pub fn take_frames(&mut self) -> u32 {
        std::mem::take(&mut self.frames)
    }

    /// Sets whether compressed messages were negotiated.
    #[must_use]
    pub fn with_deflate(mut self, deflate: bool) -> Self {
        self.deflate = deflate;
        self
    }

    /// Reads from the front of `input` to the end of the next event, and returns the number of
    /// bytes used. The caller repeats the call with the rest until no event is returned. All of
    /// `input` is used then, and the memory of the previous event is free.
    ///
    /// # Errors
    /// The peer violated the protocol. The reader must not be used afterwards.
    pub fn read<'a>(
        &'a mut self,
        input: &'a [u8],
    ) -> Result<(usize, Option<FrameEvent<'a>>), FrameError> {
        self.release();
        if self.partial.is_none() {
            if let Some((used, event)) = self.whole_text(input)? {
                return Ok((used, Some(event)));
            }
        }
        if input.is_empty() {
            return Ok((0, None));
        }
        let partial = self.partial.get_or_insert_default();
        let mut used = 0;
        loop {
            let rules = (self.role, self.deflate, self.limit);
            let Some(head) = partial.head(input, &mut used, rules)? else {
                return Ok((used, None));
            };
            if !partial.take_payload(&head, input, &mut used) {
                return Ok((used, None));
            }
            partial.next_frame();
            self.frames = self.frames.saturating_add(1);
            if partial.finish(&head, self.role)? {
                partial.done = Some(head.opcode);
                break;
            }
        }
        let event = self.partial.as_ref().map(|partial| partial.event());
        Ok((used, event.transpose()?.flatten()))
    }

    /// Drops the buffer that the previous event was borrowed from.
    fn release(&mut self) {
        let Some(partial) = &mut self.partial else {
            return;
        };
        match partial.done.take() {
            Some(opcode) if opcode.is_control() => partial.control = Vec::new(),
            Some(_) => partial.message = Vec::new(),
            None => {}
        }
        if partial.is_idle() {
            self.partial = None;
        }
    }

    /// Handles the common case of a client, an unfragmented message, without copying.
    fn whole_text<'a>(
        &self,
        input: &'a [u8],
    ) -> Result<Option<(usize, FrameEvent<'a>)>, FrameError> {
        if self.role == FrameRole::Server {
            return Ok(None);
        }
        let Some(head) = FrameHeader::parse(input, self.role, self.deflate)? else {
            return Ok(None);
        };
        if head.opcode != Opcode::Text || !head.fin {
            return Ok(None);
        }
        check_limit(0, head.len, self.limit)?;
        // Within the limit, so it fits into a usize.
        let end = head.bytes + head.len as usize;
        let payload = input.get(head.bytes..end);
        Ok(payload.map(|payload| match head.deflated {
            true => (end, FrameEvent::Deflated(payload)),
            false => (end, FrameEvent::Text(payload)),
        }))
    }
}

/// State of an incomplete frame and an incomplete message.
#[derive(Debug, Default)]
struct Partial {
    head: Option<FrameHeader>,
    head_buffer: [u8; MASKED_HEADER_BYTES_MAX],
    head_len: usize,
    /// Number of payload bytes read of the current frame.
    payload_read: u64,
    message: Vec<u8>,
    message_open: bool,
    /// The open message is compressed.
    deflated: bool,
    control: Vec<u8>,
    /// Last frame of the previous event, whose bytes stay valid until the next call.
    done: Option<Opcode>,
}

impl Partial {
    fn is_idle(&self) -> bool {
        self.head.is_none() && self.head_len == 0 && !self.message_open && self.done.is_none()
    }

    /// Returns the header of the current frame, reading it from `input` if necessary.
    fn head(
        &mut self,
        input: &[u8],
        used: &mut usize,
        (role, deflate, limit): (FrameRole, bool, usize),
    ) -> Result<Option<FrameHeader>, FrameError> {
        if let Some(head) = self.head {
            return Ok(Some(head));
        }
        let fresh = &input[*used..];
        let take = fresh.len().min(MASKED_HEADER_BYTES_MAX - self.head_len);
        let known = self.head_len;
        self.head_buffer[known..known + take].copy_from_slice(&fresh[..take]);
        let Some(head) = FrameHeader::parse(&self.head_buffer[..known + take], role, deflate)?
        else {
            self.head_len += take;
            *used += take;
            return Ok(None);
        };
        // The buffer can contain payload bytes as well; only the header's bytes count as used.
        *used += head.bytes - known;
        self.head_len = head.bytes;
        match (head.opcode, self.message_open) {
            (Opcode::Continuation, false) => return Err(FrameError::NothingToContinue),
            (Opcode::Text, true) => return Err(FrameError::MessageOpen),
            _ => {}
        }
        if !head.opcode.is_control() {
            check_limit(self.message.len(), head.len, limit)?;
            if head.opcode == Opcode::Text {
                self.deflated = head.deflated;
            }
            self.message_open = true;
        }
        self.head = Some(head);
        Ok(Some(head))
    }

    /// Copies payload. Returns `true` if the frame is complete.
    fn take_payload(&mut self, head: &FrameHeader, input: &[u8], used: &mut usize) -> bool {
        let fresh = &input[*used..];
        let left = head.len - self.payload_read;
        let take = usize::try_from(left).map_or(fresh.len(), |left| left.min(fresh.len()));
        let target = if head.opcode.is_control() {
            &mut self.control
        } else {
            &mut self.message
        };
        let start = target.len();
        target.extend_from_slice(&fresh[..take]);
        if let Some(mask) = head.mask {
            // Only the two low bits of the offset matter.
            apply_mask(&mut target[start..], mask, (self.payload_read % 4) as usize);
        }
        *used += take;
        self.payload_read += take as u64;
        self.payload_read == head.len
    }

    fn next_frame(&mut self) {
        self.head = None;
        self.head_len = 0;
        self.payload_read = 0;
    }

    /// Returns `true` if a completed frame ends a message or is a control frame.
    fn finish(&mut self, head: &FrameHeader, role: FrameRole) -> Result<bool, FrameError> {
        if head.opcode.is_control() {
            return Ok(true);
        }
        self.message_open = !head.fin;
        let is_text = head.fin && !self.deflated && role == FrameRole::Server;
        if is_text && std::str::from_utf8(&self.message).is_err() {
            return Err(FrameError::NotUtf8);
        }
        Ok(head.fin)
    }

    fn event(&self) -> Result<Option<FrameEvent<'_>>, FrameError> {
        Ok(match self.done {
            None => None,
            Some(Opcode::Ping) => Some(FrameEvent::Ping(&self.control)),
            Some(Opcode::Pong) => Some(FrameEvent::Pong(&self.control)),
            Some(Opcode::Close) => Some(FrameEvent::Close {
                code: parse_close(&self.control)?,
            }),
            Some(_) if self.deflated => Some(FrameEvent::Deflated(&self.message)),
            Some(_) => Some(FrameEvent::Text(&self.message)),
        })
    }
}

fn check_limit(known: usize, more: u64, limit: usize) -> Result<(), FrameError> {
    if (known as u64).saturating_add(more) > limit as u64 {
        return Err(FrameError::TooLarge { limit });
    }
    Ok(())
}

/// Returns the code of a close frame; accepts codes that a peer may send, and a reason in UTF-8.
fn parse_close(payload: &[u8]) -> Result<Option<u16>, FrameError> {
    let (code, reason) = match payload {
        [] => return Ok(None),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        [_] => return Err(FrameError::BadClose),
    };
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(FrameError::BadClose);
    }
    if std::str::from_utf8(reason).is_err() {
        return Err(FrameError::NotUtf8);
    }
    Ok(Some(code))
}

#[cfg(test)]
impl WebSocketFrameReader {
    pub(super) fn partial_is_allocated(&self) -> bool {
        self.partial.is_some()
    }
}
