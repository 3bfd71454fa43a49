//! Chunked bodies (RFC 9112, section 7.1): reads those of requests, writes those of responses.

use super::{ParseError, reject};

/// Maximum overhead of one chunk in bytes.
pub const CHUNK_BYTES_MAX: usize = 20;
/// The end of a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Maximum size of a chunk size line, including any extension.
const LINE_BYTES_MAX: usize = 256;
/// Maximum size of the header lines after the last chunk.
const TRAILER_BYTES_MAX: usize = 4096;

/// Appends one chunk. Appends nothing if `bytes` is empty because an empty chunk ends the body.
pub fn push_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let digits = (usize::BITS - bytes.len().leading_zeros()).div_ceil(4);
    for position in (0..digits).rev() {
        let digit = (bytes.len() >> (4 * position)) & 0xf;
        out.push(b"0123456789abcdef"[digit]);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Incremental reader of a chunked body; it does not read any input twice.
#[derive(Debug, Default)]
pub(super) struct ChunkReader {
    body: Vec<u8>,
    /// Position of the first unread byte of the input.
    at: usize,
    phase: ChunkPhase,
    /// Number of examined bytes, for tests of how much work a peer can cause.
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
    /// Continues reading; `input` is the body received so far. Returns the length of the whole
    /// body, or `None` while it is incomplete.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        body_bytes_max: usize,
    ) -> Result<Option<usize>, ParseError> {
        loop {
            let rest = input.get(self.at..).unwrap_or_default();
            match self.phase {
                // Limits the overhead of many tiny chunks relative to the body size.
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

    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }
}

/// Parses a chunk size line. Returns the chunk size and the length of the line.
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
    let is_valid =
        (1..=8).contains(&digits.len()) && digits.bytes().all(|one| one.is_ascii_hexdigit());
    let size = is_valid
        .then(|| usize::from_str_radix(digits, 16).ok())
        .flatten();
    size.map(|size| Some((size, end + 1))).ok_or(malformed)
}

/// Returns the length of the header lines after the last chunk, which are ignored.
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Body = Option<(Vec<u8>, usize)>;

    fn read_body(input: &[u8], body_bytes_max: usize) -> Result<Body, ParseError> {
        let mut reader = ChunkReader::default();
        let used = reader.read(input, body_bytes_max)?;
        Ok(used.map(|used| (reader.into_body(), used)))
    }

    #[test]
    fn each_body_byte_is_examined_once() {
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
    fn extensions_and_trailers_are_ignored() {
        let text = "5;name=value\r\nhello\r\n0A \r\n, world..!\r\n000\r\nX: y\r\n\r\nGET";
        let (body, used) = read_body(text.as_bytes(), 100).unwrap().unwrap();
        assert_eq!(body, b"hello, world..!");
        assert_eq!(&text[used..], "GET");
    }

    #[test]
    fn malformed_chunks_are_rejected() {
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
        fn written_chunks_are_read_back(
            pieces in vec(vec(any::<u8>(), 0..300), 0..8),
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
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
            let _ = read_body(&bytes, 100);
        }
    }
}
