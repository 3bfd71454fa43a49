//! Lines of a byte stream.

use super::error::AriError;

/// Longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Received bytes up to the end of a line. Lines end with `\n` or `\r\n`; a byte order mark before
/// the first one is ignored.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Start of the next line.
    start: usize,
    /// Bytes from `start` that contain no line end.
    searched: usize,
    has_line: bool,
}

impl LineBuffer {
    /// Appends received bytes. The caller takes all lines before it appends more, so that at most
    /// one line and one read are stored.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete line, without its end.
    pub fn next_line(&mut self) -> Option<Result<&str, AriError>> {
        let from = self.start + self.searched;
        let end = self.bytes[from..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| from + end) else {
            self.searched = self.bytes.len() - self.start;
            return (self.searched > LINE_BYTES_MAX).then_some(Err(AriError::LineTooLong));
        };
        let line = &self.bytes[self.start..end];
        self.start = end + 1;
        self.searched = 0;
        if line.len() > LINE_BYTES_MAX {
            return Some(Err(AriError::LineTooLong));
        }
        let line = match std::mem::replace(&mut self.has_line, true) {
            false => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            true => line,
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Some(std::str::from_utf8(line).map_err(|_| AriError::Utf8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<Result<String, AriError>> {
        let mut buffer = LineBuffer::default();
        let mut found = Vec::new();
        for chunk in chunks {
            buffer.push(chunk);
            while let Some(line) = buffer.next_line() {
                found.push(line.map(str::to_owned));
                if found.last().is_some_and(Result::is_err) {
                    return found;
                }
            }
        }
        found
    }

    #[test]
    fn lines_come_from_any_chunks() {
        let bytes = "\u{feff}1|RAC\r\nKEEPALIVE\n\u{feff}\r\n\r\nrest".as_bytes();
        let expected = ["1|RAC", "KEEPALIVE", "\u{feff}", ""].map(|line| Ok(line.to_owned()));
        assert_eq!(lines(&[bytes]), expected);
        let single: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(lines(&single), expected);
    }

    #[test]
    fn endless_and_invalid_lines_are_rejected() {
        let part = vec![b'x'; 64 * 1024];
        let endless = vec![&*part; 17];
        assert_eq!(lines(&endless), [Err(AriError::LineTooLong)]);
        let mut long = vec![b'x'; LINE_BYTES_MAX + 1];
        long.push(b'\n');
        assert_eq!(lines(&[&long]), [Err(AriError::LineTooLong)]);
        assert_eq!(
            lines(&[&long[1..]])[0].as_ref().map(String::len),
            Ok(LINE_BYTES_MAX)
        );
        assert_eq!(
            lines(&[b"a\n\xff\n"]),
            [Ok("a".to_owned()), Err(AriError::Utf8)]
        );
    }
}
