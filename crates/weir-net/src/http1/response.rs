//! Encodes responses and the WebSocket upgrade.

use std::io::Write;

/// A complete response with a known length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Media type with its character set.
    pub content_type: &'static str,
    /// Further headers; names and values must be valid in HTTP.
    pub headers: Vec<(&'static str, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Response {
    /// Creates a plain text response.
    pub fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=UTF-8",
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// Adds a header; the value must not contain line breaks.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Encodes the response. Unless `keep_alive`, it announces that the connection will be closed.
    pub fn to_bytes(&self, keep_alive: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.body.len());
        self.put_head(&mut out, keep_alive, Some(self.body.len()));
        out.extend_from_slice(&self.body);
        out
    }

    /// Encodes the status line and the headers of a chunked response.
    pub fn to_chunked_head(&self, keep_alive: bool) -> Vec<u8> {
        debug_assert!(self.body.is_empty(), "a chunked head has no body");
        let mut out = Vec::with_capacity(256);
        self.put_head(&mut out, keep_alive, None);
        out
    }

    fn put_head(&self, out: &mut Vec<u8>, keep_alive: bool, length: Option<usize>) {
        let reason = reason(self.status);
        put(out, format_args!("HTTP/1.1 {} {reason}\r\n", self.status));
        put(out, format_args!("Content-Type: {}\r\n", self.content_type));
        match length {
            Some(length) => put(out, format_args!("Content-Length: {length}\r\n")),
            None => put(out, format_args!("Transfer-Encoding: chunked\r\n")),
        }
        if !keep_alive {
            put(out, format_args!("Connection: close\r\n"));
        }
        for (name, value) in &self.headers {
            debug_assert!(!value.contains(['\r', '\n']), "header injection");
            put(out, format_args!("{name}: {value}\r\n"));
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Encodes the response that upgrades a connection to a WebSocket (RFC 6455, section 4.2.2).
pub fn write_upgrade(accept: &str, protocol: Option<&str>, extension: Option<&str>) -> Vec<u8> {
    let mut out = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\n"
        .to_vec();
    for (name, value) in [
        ("Accept", Some(accept)),
        ("Protocol", protocol),
        ("Extensions", extension),
    ] {
        if let Some(value) = value {
            put(&mut out, format_args!("Sec-WebSocket-{name}: {value}\r\n"));
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_has_length_and_connection_header() {
        let bytes = Response::text(200, "hi")
            .with_header("Pragma", "no-cache")
            .to_bytes(false);
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Length: 2\r\n\
             Connection: close\r\nPragma: no-cache\r\n\r\nhi"
        );
    }
}
