//! Opening handshake: the accept key of both ends, and the client's request and response check. The
//! server parses the request as ordinary HTTP/1.1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use thiserror::Error;

use super::extension::{OFFER, accepts_offer};

/// Failure of a client's WebSocket handshake.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// Response other than `101 Switching Protocols`.
    #[error("websocket upgrade rejected with http status {status}")]
    Refused {
        /// HTTP status.
        status: u16,
    },
    /// Missing or wrong `Sec-WebSocket-Accept` header.
    #[error("websocket upgrade response has a wrong or no sec-websocket-accept")]
    WrongAccept,
    /// Subprotocol other than the offered one.
    #[error("websocket upgrade response is without the subprotocol \"{wanted}\"")]
    WrongSubprotocol {
        /// Offered subprotocol.
        wanted: String,
    },
    /// Extension, or extension parameters, that were not offered.
    #[error("websocket upgrade response has an extension that was not offered")]
    WrongExtension,
    /// Response that is not HTTP, or with excessively long headers.
    #[error("websocket upgrade response is malformed http")]
    Malformed,
}

/// Returns the `Sec-WebSocket-Accept` value for a `Sec-WebSocket-Key` (RFC 6455, 4.2.2).
pub fn accept_key(key: &str) -> String {
    let mut sha = Sha1::new();
    sha.update(key.as_bytes());
    sha.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(sha.finalize())
}

/// Encodes a client's key from 16 random bytes.
pub fn new_client_key(random: [u8; 16]) -> String {
    STANDARD.encode(random)
}

/// Appends a client's upgrade request. `host` is the authority (`name:port`), `path` begins with a
/// slash; neither may contain blanks or line breaks. An empty `subprotocol` requests none.
/// `deflate` offers compression ([`OFFER`]).
pub fn client_request(
    out: &mut Vec<u8>,
    host: &str,
    path: &str,
    key: &str,
    subprotocol: &str,
    deflate: bool,
) {
    let extensions = match deflate {
        true => format!("Sec-WebSocket-Extensions: {OFFER}\r\n"),
        false => String::new(),
    };
    let subprotocol = match subprotocol {
        "" => String::new(),
        name => format!("Sec-WebSocket-Protocol: {name}\r\n"),
    };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{subprotocol}{extensions}\r\n"
    );
    out.extend_from_slice(request.as_bytes());
}

/// Parameters of an opened WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Length of the server's response; frames follow it.
    pub bytes: usize,
    /// Compression was negotiated.
    pub deflate: bool,
}

/// Checks the response to [`client_request`], which was called with the same `deflate`. Returns
/// `None` while the header is incomplete.
///
/// # Errors
/// Anything but an upgrade with the right key and subprotocol, and without an extension that was
/// not offered.
pub fn parse_server_response(
    input: &[u8],
    key: &str,
    subprotocol: &str,
    deflate: bool,
) -> Result<Option<Opened>, HandshakeError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let bytes = match response.parse(input) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() < RESPONSE_BYTES_MAX => return Ok(None),
        _ => return Err(HandshakeError::Malformed),
    };
    let status = response.code.ok_or(HandshakeError::Malformed)?;
    if status != 101 {
        return Err(HandshakeError::Refused { status });
    }
    let header = |name: &str| {
        let found = response
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value.trim_ascii())
    };
    if header("sec-websocket-accept") != Some(accept_key(key).as_bytes()) {
        return Err(HandshakeError::WrongAccept);
    }
    let wanted = Some(subprotocol.as_bytes()).filter(|name| !name.is_empty());
    if header("sec-websocket-protocol") != wanted {
        return Err(HandshakeError::WrongSubprotocol {
            wanted: subprotocol.to_owned(),
        });
    }
    let extension = header("sec-websocket-extensions");
    let allowed = |chosen| deflate && std::str::from_utf8(chosen).is_ok_and(accepts_offer);
    if extension.is_some_and(|chosen| !allowed(chosen)) {
        return Err(HandshakeError::WrongExtension);
    }
    Ok(Some(Opened {
        bytes,
        deflate: extension.is_some(),
    }))
}

const HEADERS_MAX: usize = 64;
const RESPONSE_BYTES_MAX: usize = 16 * 1024;
