//! Incremental reader of server-sent events: the response head, chunks, lines, events (HTML
//! standard, 9.2). Lines end with LF or CR LF; a single CR does not end a line.

use thiserror::Error;

/// Part of a stream of server-sent events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEvent<'a> {
    /// The server has accepted the request.
    Open,
    /// An event: its data, with line breaks between several lines.
    Data(&'a [u8]),
}

/// End of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum StreamEnd {
    /// The server rejected the request.
    #[error("server responded with HTTP status {0}")]
    Refused(u16),
    /// The response is not HTTP/1.1, or a chunk is malformed.
    #[error("malformed HTTP response")]
    Malformed,
    /// The response has another content type.
    #[error("response is no stream of events (text/event-stream)")]
    NotEvents,
    /// A line or an event is longer than the limit.
    #[error("event over the limit")]
    TooLong,
    /// The server ended the response.
    #[error("stream ended by the server")]
    Ended,
}

/// Reader of one response.
#[derive(Debug)]
pub struct EventStreamReader {
    limit: usize,
    body: BodyPhase,
    /// Incomplete head, or incomplete line of a chunk size.
    partial: Vec<u8>,
    /// Incomplete line of the text.
    line: Vec<u8>,
    /// Data of the current event.
    data: Vec<u8>,
    has_data: bool,
}

#[derive(Debug, Clone, Copy)]
enum BodyPhase {
    Head,
    /// Without chunks.
    Text,
    ChunkSize,
    ChunkData(usize),
    /// The line break after a chunk.
    ChunkEnd,
}

impl EventStreamReader {
    /// Creates a reader that rejects events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            body: BodyPhase::Head,
            partial: Vec::new(),
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
        }
    }

    /// Reads bytes of the response, and passes its events to `sink`.
    ///
    /// # Errors
    /// [`StreamEnd`] if no further events follow; no bytes must be read after it.
    pub fn read(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<(), StreamEnd> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match self.body {
                BodyPhase::Head => {
                    self.partial.extend_from_slice(rest);
                    let head = std::mem::take(&mut self.partial);
                    let Some(used) = self.head(&head)? else {
                        self.partial = head;
                        return Ok(());
                    };
                    sink(StreamEvent::Open);
                    return self.read(&head[used..], sink);
                }
                BodyPhase::Text => return self.text(rest, sink),
                BodyPhase::ChunkSize => self.chunk_size(rest)?,
                BodyPhase::ChunkData(left) => {
                    let (data, after) = rest.split_at(left.min(rest.len()));
                    self.body = match left - data.len() {
                        0 => BodyPhase::ChunkEnd,
                        left => BodyPhase::ChunkData(left),
                    };
                    self.text(data, sink)?;
                    after
                }
                BodyPhase::ChunkEnd => match rest {
                    [b'\r', after @ ..] => after,
                    [b'\n', after @ ..] => {
                        self.body = BodyPhase::ChunkSize;
                        after
                    }
                    _ => return Err(StreamEnd::Malformed),
                },
            };
        }
        Ok(())
    }

    /// Parses the head. Returns its length, `None` while it is incomplete.
    fn head(&mut self, input: &[u8]) -> Result<Option<usize>, StreamEnd> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let used = match response.parse(input) {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
            _ => return Err(StreamEnd::Malformed),
        };
        match response.code {
            Some(200) => {}
            Some(status) => return Err(StreamEnd::Refused(status)),
            None => return Err(StreamEnd::Malformed),
        }
        let has = |name: &str, start: &[u8]| {
            let mut found = response.headers.iter();
            let found = found.find(|header| header.name.eq_ignore_ascii_case(name));
            let value = found.and_then(|header| header.value.get(..start.len()));
            value.is_some_and(|value| value.eq_ignore_ascii_case(start))
        };
        if !has("content-type", b"text/event-stream") {
            return Err(StreamEnd::NotEvents);
        }
        self.body = match has("transfer-encoding", b"chunked") {
            true => BodyPhase::ChunkSize,
            false => BodyPhase::Text,
        };
        Ok(Some(used))
    }

    /// Reads the line of a chunk size, and returns the bytes after it.
    fn chunk_size<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], StreamEnd> {
        let end = memchr::memchr(b'\n', bytes);
        self.partial
            .extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        if self.partial.len() > CHUNK_LINE_BYTES_MAX {
            return Err(StreamEnd::Malformed);
        }
        let Some(end) = end else { return Ok(&[]) };
        let digits = self.partial.split(|byte| *byte == b';').next();
        let digits = std::str::from_utf8(digits.unwrap_or_default().trim_ascii());
        let size = digits.map_err(|_| StreamEnd::Malformed)?;
        let size = u32::from_str_radix(size, 16).map_err(|_| StreamEnd::Malformed)?;
        self.partial.clear();
        if size == 0 {
            return Err(StreamEnd::Ended);
        }
        self.body = BodyPhase::ChunkData(size as usize);
        Ok(&bytes[end + 1..])
    }

    fn text(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<(), StreamEnd> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (first, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            if self.line.is_empty() {
                self.line(first, sink)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(first);
                self.line(&line, sink)?;
            }
        }
        if self.line.len() + rest.len() > self.limit {
            return Err(StreamEnd::TooLong);
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// Reads a line without its line break. Comments and fields other than `data` are skipped.
    fn line(
        &mut self,
        line: &[u8],
        sink: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<(), StreamEnd> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                sink(StreamEvent::Data(&self.data));
                self.data.clear();
            }
            return Ok(());
        }
        let Some(data) = line.strip_prefix(b"data:") else {
            return Ok(());
        };
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data
            .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        match self.data.len() > self.limit {
            true => Err(StreamEnd::TooLong),
            false => Ok(()),
        }
    }
}

const HEADERS_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 16 * 1024;
const CHUNK_LINE_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n";

    /// Returns the data of all events if the response arrives in parts of `step` bytes, and how it
    /// ends.
    fn read(response: &[u8], step: usize) -> (Vec<String>, Result<(), StreamEnd>) {
        let mut reader = EventStreamReader::new(64);
        let mut found = Vec::new();
        for part in response.chunks(step) {
            let end = reader.read(part, &mut |event| {
                found.push(match event {
                    StreamEvent::Open => "open".to_owned(),
                    StreamEvent::Data(data) => String::from_utf8_lossy(data).into_owned(),
                });
            });
            if end.is_err() {
                return (found, end);
            }
        }
        (found, Ok(()))
    }

    fn chunked(text: &str, size: usize) -> Vec<u8> {
        let mut out = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
        for part in text.as_bytes().chunks(size) {
            super::super::push_chunk(&mut out, part);
        }
        out
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_parts_and_chunks(step in 1_usize..90, size in 1_usize..40) {
            let text = ": hello\r\nretry: 5\n\ndata: a\nevent: x\ndata:b\n\nid: 1\n\n\
                        data:\n\ndata: c";
            let expected = ["open", "a\nb", ""];
            let plain = format!("{HEAD}\r\n{text}");
            for response in [plain.into_bytes(), chunked(text, size)] {
                let (found, end) = read(&response, step);
                prop_assert_eq!(found, expected);
                prop_assert_eq!(end, Ok(()));
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut response = chunked("", 1);
            response.extend(bytes);
            let (found, _) = read(&response, 7);
            prop_assert_eq!(&found[0], "open");
        }
    }

    #[test]
    fn streams_end_with_a_reason() {
        let end = |response: &[u8]| read(response, 9).1.unwrap_err();
        let refused = b"HTTP/1.1 404 Not Found\r\n\r\n";
        assert_eq!(end(refused), StreamEnd::Refused(404));
        let page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n";
        assert_eq!(end(page), StreamEnd::NotEvents);
        assert_eq!(end(b"SSH-2.0\r\n\r\n"), StreamEnd::Malformed);
        assert_eq!(end(&[b'a'; 20_000]), StreamEnd::Malformed);
        let with = |after: &str| [chunked("data: a\n\n", 9), after.into()].concat();
        assert_eq!(end(&with("0\r\n\r\n")), StreamEnd::Ended);
        assert_eq!(end(&with("xyz\r\n")), StreamEnd::Malformed);
        assert_eq!(end(&with("1\r\naXX")), StreamEnd::Malformed);
        assert_eq!(end(&with(&"1".repeat(300))), StreamEnd::Malformed);
        let long = format!("data: {}", "x".repeat(70));
        assert_eq!(end(&chunked(&long, 50)), StreamEnd::TooLong);
        let lines = "data: 0123456789\n".repeat(7);
        assert_eq!(end(&chunked(&lines, 50)), StreamEnd::TooLong);
    }
}
