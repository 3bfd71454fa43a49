//! Bodies in chunks (RFC 9112, section 7.1): requests are read whole, answers are written piece by
//! piece.

use super::error::{ParseError, reject};

/// What a chunk adds to its bytes at most.
pub const CHUNK_BYTES_MAX: usize = 20;
/// The end of a body in chunks.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Bytes of a size line, with any extension.
const LINE_BYTES_MAX: usize = 256;
/// Bytes of the header lines after the last chunk.
const TRAILER_BYTES_MAX: usize = 4096;

/// Appends one chunk. An empty one would end the body, so nothing is appended for it.
pub fn push_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let digits = (usize::BITS - bytes.len().leading_zeros()).div_ceil(4);
    for place in (0..digits).rev() {
        let digit = (bytes.len() >> (4 * place)) & 0xf;
        out.push(b"0123456789abcdef"[digit]);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Reads a body in chunks as it arrives; what was read is not looked at again.
#[derive(Debug, Default)]
pub(super) struct ChunkReader {
    body: Vec<u8>,
    /// Where the part of the input begins that is not dealt with.
    at: usize,
    phase: ChunkPhase,
    /// Bytes looked at, for tests of how much work a peer can cause.
    examined: usize,
}

#[derive(Debug, Clone, Copy, Default)]
enum ChunkPhase {
    #[default]
    Size,
    Data(usize),
    Trailer,
}

impl ChunkReader {
    /// Reads on; `input` is all that has arrived of the body. Returns the bytes that the whole body
    /// took, `None` while it is not complete.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        body_bytes_max: usize,
    ) -> Result<Option<usize>, ParseError> {
        loop {
            let rest = input.get(self.at..).unwrap_or_default();
            match self.phase {
                // Many tiny chunks must not cost more than the body they make is worth.
                ChunkPhase::Size if self.at > 2 * body_bytes_max + LINE_BYTES_MAX => {
                    return Err(reject(413, "request body over the limit"));
                }
                ChunkPhase::Size => {
                    self.examined += rest.len().min(LINE_BYTES_MAX);
                    let Some((size, line_bytes)) = size_line(rest)? else {
                        return Ok(None);
                    };
                    if self.body.len() + size > body_bytes_max {
                        return Err(reject(413, "request body over the limit"));
                    }
                    self.at += line_bytes;
                    self.phase = match size {
                        0 => ChunkPhase::Trailer,
                        size => ChunkPhase::Data(size),
                    };
                }
                ChunkPhase::Data(size) => {
                    let Some(bytes) = rest.get(..size + 2) else {
                        return Ok(None);
                    };
                    self.examined += bytes.len();
                    let (bytes, end) = bytes.split_at(size);
                    if end != b"\r\n" {
                        return Err(reject(400, "malformed chunk"));
                    }
                    self.body.extend_from_slice(bytes);
                    self.at += size + 2;
                    self.phase = ChunkPhase::Size;
                }
                ChunkPhase::Trailer => {
                    self.examined += rest.len().min(TRAILER_BYTES_MAX);
                    return Ok(trailer(rest)?.map(|bytes| self.at + bytes));
                }
            }
        }
    }

    /// Returns the body, once it is complete.
    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }
}

/// The size that a chunk's first line tells, and the bytes of that line.
fn size_line(input: &[u8]) -> Result<Option<(usize, usize)>, ParseError> {
    let malformed = reject(400, "malformed chunk size");
    let window = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        return if window.len() < LINE_BYTES_MAX {
            Ok(None)
        } else {
            Err(malformed)
        };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(malformed)?;
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let digits = std::str::from_utf8(digits.trim_ascii_end()).map_err(|_| malformed)?;
    let plain =
        (1..=8).contains(&digits.len()) && digits.bytes().all(|one| one.is_ascii_hexdigit());
    let size = plain
        .then(|| usize::from_str_radix(digits, 16).ok())
        .flatten();
    size.map(|size| Some((size, end + 1))).ok_or(malformed)
}

/// The bytes of the header lines after the last chunk, which nobody looks at.
fn trailer(input: &[u8]) -> Result<Option<usize>, ParseError> {
    let mut at = 0;
    while let Some(end) = memchr::memchr(b'\n', &input[at..]) {
        let line = &input[at..at + end];
        at += end + 1;
        if at > TRAILER_BYTES_MAX {
            break;
        }
        if line == b"\r" {
            return Ok(Some(at));
        }
    }
    if input.len() > TRAILER_BYTES_MAX {
        return Err(reject(431, "request trailer over the limit"));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Body = Option<(Vec<u8>, usize)>;

    fn read_body(input: &[u8], body_bytes_max: usize) -> Result<Body, ParseError> {
        let mut reader = ChunkReader::default();
        let used = reader.read(input, body_bytes_max)?;
        Ok(used.map(|used| (reader.into_body(), used)))
    }

    #[test]
    fn a_body_that_comes_byte_by_byte_is_looked_at_once() {
        let wire = [&b"1\r\nx\r\n".repeat(10_000)[..], LAST_CHUNK].concat();
        let mut reader = ChunkReader::default();
        let end = (1..=wire.len()).find_map(|end| reader.read(&wire[..end], 50_000).unwrap());
        assert_eq!(end, Some(wire.len()));
        assert!(reader.examined <= 10 * wire.len(), "{}", reader.examined);
        assert_eq!(reader.into_body().len(), 10_000);
    }

    fn status(text: &str) -> u16 {
        match read_body(text.as_bytes(), 100) {
            Err(error) => error.status,
            Ok(_) => 0,
        }
    }

    #[test]
    fn extensions_and_trailers_are_passed_over() {
        let text = "5;name=value\r\nhello\r\n0A \r\n, env..!\r\n000\r\nX: y\r\n\r\nGET";
        let (body, used) = read_body(text.as_bytes(), 100).unwrap().unwrap();
        assert_eq!(body, b"hello, env..!");
        assert_eq!(&text[used..], "GET");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "1\nx",
            "123456789\r\n",
            "2\r\nabc\r\n",
        ] {
            assert_eq!(status(text), 400, "{text:?}");
        }
        assert_eq!(status("65\r\n"), 413);
        assert_eq!(status("ffffffff\r\n"), 413);
        assert_eq!(status(&"1\r\nx\r\n".repeat(99)), 413);
        assert_eq!(status(&"1".repeat(300)), 400);
        assert_eq!(status(&format!("0\r\n{}", "x".repeat(5_000))), 431);
        assert_eq!(status("1;"), 0);
    }

    proptest! {
        #[test]
        fn what_is_written_in_pieces_is_read_whole(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let (mut wire, mut all) = (Vec::new(), Vec::new());
            for piece in &pieces {
                push_chunk(&mut wire, piece);
                all.extend_from_slice(piece);
            }
            wire.extend_from_slice(LAST_CHUNK);
            let cut = cut.index(wire.len());
            prop_assert!(matches!(read_body(&wire[..cut], 10_000), Ok(None)));
            let whole = read_body(&wire, 10_000).unwrap();
            prop_assert_eq!(whole, Some((all, wire.len())));
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_body(&bytes, 100);
        }
    }
}
