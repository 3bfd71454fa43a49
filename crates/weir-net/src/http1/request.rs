//! Request parser: head by `httparse`, body by its length or in chunks, each with a limit.

use std::borrow::Cow;
use std::net::SocketAddr;

use super::chunked::ChunkReader;
use super::{ParseError, reject};

/// Maximum number of header lines per request; browsers send about twenty.
const HEADERS_MAX: usize = 64;

/// Size limits of a request.
#[derive(Debug, Clone, Copy)]
pub struct ParseLimits {
    /// Maximum size of the request line and all headers in bytes.
    pub head_bytes: usize,
    /// Maximum size of the body in bytes.
    pub body_bytes: usize,
}

/// A complete request, borrowed from the connection's buffer.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    /// Method, such as `GET` or `POST`.
    pub method: &'a str,
    /// Path without the query.
    pub path: &'a str,
    /// Text after the question mark, empty if there is none.
    pub query: &'a str,
    /// Body, empty if there is none.
    pub body: Cow<'a, [u8]>,
    /// The client accepts a chunked response.
    pub accepts_chunks: bool,
    /// The connection stays open after the response.
    pub keep_alive: bool,
    /// Address of the client.
    pub peer: SocketAddr,
    headers: Vec<(&'a str, &'a [u8])>,
}

/// Result of parsing a buffer.
#[derive(Debug)]
pub enum Parsed<'a> {
    /// The request is incomplete.
    Partial,
    /// A complete request and its length in bytes.
    Complete(HttpRequest<'a>, usize),
}

/// Parses the first request in `buffer`, without earlier progress.
pub fn parse_request(
    buffer: &[u8],
    limits: ParseLimits,
    peer: SocketAddr,
) -> Result<Parsed<'_>, ParseError> {
    parse_request_incremental(buffer, limits, peer, &mut None)
}

/// Progress in the chunked body of an incomplete request.
#[derive(Debug)]
pub struct BodyProgress {
    head_bytes: usize,
    reader: ChunkReader,
}

/// Parses the first request in `buffer`. While the request is incomplete, the caller passes the
/// same `progress` again, with a buffer that has more bytes at its end.
///
/// # Errors
/// Malformed syntax (400), a head or body over its limit (431, 413) or a transfer coding other than
/// `chunked` (501).
pub fn parse_request_incremental<'a>(
    buffer: &'a [u8],
    limits: ParseLimits,
    peer: SocketAddr,
    progress: &mut Option<Box<BodyProgress>>,
) -> Result<Parsed<'a>, ParseError> {
    if let Some(known) = progress {
        let rest = buffer.get(known.head_bytes..).unwrap_or_default();
        if known.reader.read(rest, limits.body_bytes)?.is_none() {
            return Ok(Parsed::Partial);
        }
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(buffer) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if buffer.len() > limits.head_bytes => {
            return Err(reject(431, "request head over the limit"));
        }
        Ok(httparse::Status::Partial) => return Ok(Parsed::Partial),
        Err(httparse::Error::TooManyHeaders) => return Err(reject(431, "too many headers")),
        Err(_) => return Err(reject(400, "malformed request")),
    };
    if head_bytes > limits.head_bytes {
        return Err(reject(431, "request head over the limit"));
    }
    let (Some(method), Some(target), Some(version)) = (head.method, head.path, head.version) else {
        return Err(reject(400, "malformed request line"));
    };
    let headers: Vec<_> = head
        .headers
        .iter()
        .map(|header| (header.name, header.value))
        .collect();
    let rest = &buffer[head_bytes..];
    let length = body_length(&headers, version, limits)?;
    check_host(&headers, version)?;
    let (body, body_bytes) = match length {
        Some(length) => match rest.get(..length) {
            Some(body) => (Cow::Borrowed(body), length),
            None => return Ok(Parsed::Partial),
        },
        None => {
            let mut known = progress.take().unwrap_or_else(|| {
                let reader = ChunkReader::default();
                Box::new(BodyProgress { head_bytes, reader })
            });
            match known.reader.read(rest, limits.body_bytes)? {
                Some(used) => (Cow::Owned(known.reader.into_body()), used),
                None => {
                    *progress = Some(known);
                    return Ok(Parsed::Partial);
                }
            }
        }
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = HttpRequest {
        method,
        path,
        query,
        body,
        accepts_chunks: version > 0,
        keep_alive: false,
        peer,
        headers,
    };
    request.keep_alive = if version == 0 {
        request.has_token("connection", "keep-alive")
    } else {
        !request.has_token("connection", "close")
    };
    Ok(Parsed::Complete(request, head_bytes + body_bytes))
}

fn values<'a>(headers: &[(&'a str, &'a [u8])], name: &str) -> impl Iterator<Item = &'a [u8]> {
    let named = headers
        .iter()
        .filter(move |(known, _)| known.eq_ignore_ascii_case(name));
    named.map(|(_, value)| *value)
}

/// Checks for exactly one host header (RFC 9112, 3.2). HTTP/1.0 may omit it.
fn check_host(headers: &[(&str, &[u8])], version: u8) -> Result<(), ParseError> {
    match (values(headers, "host").count(), version) {
        (1, _) | (0, 0) => Ok(()),
        (0, _) => Err(reject(400, "missing host header")),
        _ => Err(reject(400, "duplicate host header")),
    }
}

/// Returns the length of the body, `None` if it is chunked. Rejects ambiguous requests, which allow
/// request smuggling: two lengths, or a length with a transfer coding.
fn body_length(
    headers: &[(&str, &[u8])],
    version: u8,
    limits: ParseLimits,
) -> Result<Option<usize>, ParseError> {
    let is_chunked = |value: &[u8]| value.trim_ascii().eq_ignore_ascii_case(b"chunked");
    let mut codings = values(headers, "transfer-encoding");
    let coding = codings.next();
    if codings.next().is_some() || coding.is_some_and(|value| !is_chunked(value)) {
        let reason = "unsupported transfer coding, only chunked is supported";
        return Err(reject(501, reason));
    }
    let mut lengths = values(headers, "content-length");
    let length = lengths.next();
    match (coding, length) {
        (Some(_), _) if version == 0 => Err(reject(400, "transfer coding in HTTP/1.0")),
        (Some(_), Some(_)) => Err(reject(400, "content length with transfer coding")),
        (Some(_), None) => Ok(None),
        (None, None) => Ok(Some(0)),
        (None, Some(_)) if lengths.next().is_some() => Err(reject(400, "duplicate content length")),
        (None, Some(value)) => {
            let text = std::str::from_utf8(value).unwrap_or_default().trim();
            // A number may begin with a sign for `parse`.
            let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            match digits.and_then(|text| text.parse::<usize>().ok()) {
                None => Err(reject(400, "malformed content length")),
                Some(length) if length > limits.body_bytes => {
                    Err(reject(413, "request body over the limit"))
                }
                length => Ok(length),
            }
        }
    }
}

impl<'a> HttpRequest<'a> {
    /// Returns the first header named `name`, if it is text.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let value = values(&self.headers, name).next()?;
        std::str::from_utf8(value).ok().map(str::trim)
    }

    /// Returns all headers that are text, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let headers = self.headers.iter();
        headers.filter_map(|(name, value)| {
            let value = std::str::from_utf8(value).ok()?;
            Some((*name, value.trim()))
        })
    }

    /// Returns the elements of a comma-separated header, across all its lines.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &'a str> {
        values(&self.headers, name)
            .filter_map(|value| std::str::from_utf8(value).ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .filter(|element| !element.is_empty())
    }

    /// Returns `true` if a comma-separated header contains `token`, ignoring case.
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.list(name)
            .any(|element| element.eq_ignore_ascii_case(token))
    }

    /// Returns `true` if the request is a WebSocket upgrade.
    pub fn is_websocket_upgrade(&self) -> bool {
        self.method == "GET"
            && self.has_token("upgrade", "websocket")
            && self.has_token("connection", "upgrade")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const LIMITS: ParseLimits = ParseLimits {
        head_bytes: 1_000,
        body_bytes: 100,
    };

    fn peer() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1))
    }

    fn parse(text: &str) -> Result<Parsed<'_>, ParseError> {
        parse_request(text.as_bytes(), LIMITS, peer())
    }

    #[test]
    fn post_with_query_and_body_is_parsed() {
        let text = "POST /lightstreamer/control.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\n\
                    Host: x\r\nContent-Length: 5\r\n\r\nhelloGET";
        let Ok(Parsed::Complete(request, used)) = parse(text) else {
            panic!("incomplete")
        };
        assert_eq!(request.path, "/lightstreamer/control.txt");
        assert_eq!(request.query, "LS_protocol=TLCP-2.5.0");
        assert_eq!(&request.body[..], b"hello");
        assert!(request.keep_alive);
        assert_eq!(&text[used..], "GET");
    }

    #[test]
    fn chunked_body_is_parsed() {
        let text = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n\
                    2\r\nhi\r\n0\r\n\r\nGET";
        let Ok(Parsed::Complete(request, used)) = parse(text) else {
            panic!("incomplete")
        };
        assert_eq!(&request.body[..], b"hi");
        assert_eq!(&text[used..], "GET");
    }

    #[test]
    fn rejected_requests_have_status() {
        for (text, status) in [
            ("BAD\r\n\r\n", 400),
            (
                "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n",
                413,
            ),
            (
                "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\n",
                400,
            ),
            (
                "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                400,
            ),
            (
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                501,
            ),
            (
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\
                 Content-Length: 1\r\n\r\n",
                400,
            ),
            (
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\n",
                400,
            ),
        ] {
            assert_eq!(
                parse(text).map(|_| ()).unwrap_err().status,
                status,
                "{text}"
            );
        }
        let endless = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}", "y".repeat(1_000));
        assert_eq!(parse(&endless).map(|_| ()).unwrap_err().status, 431);
    }

    /// Rejects requests that two servers could delimit differently.
    #[test]
    fn ambiguous_requests_are_rejected() {
        for head in [
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n",
            "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n",
            "GET / HTTP/1.1\r\n Host: a\r\n",
        ] {
            let text = format!("{head}\r\n0\r\n\r\n");
            let status = parse(&text).map(|_| ()).map_err(|error| error.status);
            assert_eq!(status, Err(400), "{head}");
        }
        assert!(
            parse("GET / HTTP/1.0\r\n\r\n").is_ok(),
            "HTTP/1.0 without host header"
        );
    }

    #[test]
    fn upgrade_is_detected_in_mixed_case_lists() {
        let text = "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n\
                    Upgrade: WebSocket\r\n\r\n";
        let Ok(Parsed::Complete(request, _)) = parse(text) else {
            panic!("incomplete")
        };
        assert!(request.is_websocket_upgrade());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
            let _ = parse_request(&bytes, LIMITS, peer());
        }

        #[test]
        fn every_prefix_is_partial(cut in 0usize..60) {
            let text = b"POST /a HTTP/1.1\r\nContent-Length: 9\r\nHost: h\r\n\r\n123456789";
            let cut = cut.min(text.len() - 1);
            let parsed = parse_request(&text[..cut], LIMITS, peer());
            prop_assert!(matches!(parsed, Ok(Parsed::Partial)));
        }
    }
}
