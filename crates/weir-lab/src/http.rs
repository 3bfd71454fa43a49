//! A request to an HTTP server of the lab.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A request. HTTP/1.0 is sufficient, and its responses have no chunks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a str,
}

/// A response; the body may be text of any kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Sends a request to `host:port` and reads the response until the server closes the connection.
pub(crate) fn send(
    host: Ipv4Addr,
    port: u16,
    request: HttpRequest<'_>,
    timeout: Duration,
) -> io::Result<HttpResponse> {
    let mut socket = TcpStream::connect_timeout(&SocketAddr::from((host, port)), timeout)?;
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))?;
    let HttpRequest {
        method,
        path,
        headers,
        body,
    } = request;
    let mut text = format!("{method} {path} HTTP/1.0\r\nHost: {host}:{port}\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    socket.write_all(text.as_bytes())?;
    let mut response = Vec::new();
    socket.take(RESPONSE_BYTES_MAX).read_to_end(&mut response)?;
    parse(&response).ok_or_else(|| {
        let reason = format!("{host}:{port} does not respond with HTTP");
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

fn parse(response: &[u8]) -> Option<HttpResponse> {
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&response[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    let body = String::from_utf8_lossy(&response[end + 4..]).into_owned();
    Some(HttpResponse { status, body })
}

const RESPONSE_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_responses_are_rejected() {
        let good = b"HTTP/1.1 201 Created\r\nA: b\r\n\r\nbody";
        let expected = HttpResponse {
            status: 201,
            body: "body".to_owned(),
        };
        assert_eq!(parse(good), Some(expected));
        for bad in [
            "",
            "HTTP/1.1 201\r\n",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 2ü\r\n\r\n",
            "x\r\n\r\n",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
