//! The opening handshake: the key both ends compute, and the client's request and answer check.
//! The server's side of the request is ordinary HTTP/1.1 and is parsed there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use thiserror::Error;

use super::extension::{OFFER, answers_offer};

/// Why a server's answer does not open a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// An answer other than `101 Switching Protocols`.
    #[error("websocket upgrade refused with http status {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The `Sec-WebSocket-Accept` header is missing or does not fit the key.
    #[error("websocket upgrade answered with a wrong or missing sec-websocket-accept")]
    WrongAccept,
    /// The server did not choose the offered subprotocol.
    #[error("websocket upgrade answered without the subprotocol \"{wanted}\"")]
    WrongSubprotocol {
        /// The subprotocol that was offered.
        wanted: String,
    },
    /// The server chose an extension, or a form of it, that was not offered.
    #[error("websocket upgrade answered with an extension that was not offered")]
    WrongExtension,
    /// Not HTTP, or more header than is reasonable.
    #[error("websocket upgrade answered with malformed http")]
    Malformed,
}

/// The `Sec-WebSocket-Accept` value for a client's `Sec-WebSocket-Key` (RFC 6455, 4.2.2).
pub fn accept_key(key: &str) -> String {
    let mut sha = Sha1::new();
    sha.update(key.as_bytes());
    sha.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(sha.finalize())
}

/// A client's key: 16 random bytes in base64.
pub fn new_client_key(random: [u8; 16]) -> String {
    STANDARD.encode(random)
}

/// Appends a client's upgrade request. `host` is the authority (`name:port`), `path` begins with a
/// slash; both must be free of blanks and line ends. `deflate` offers compression ([`OFFER`]).
pub fn client_request(
    out: &mut Vec<u8>,
    host: &str,
    path: &str,
    key: &str,
    subprotocol: &str,
    deflate: bool,
) {
    let extensions = match deflate {
        true => ["\r\nSec-WebSocket-Extensions: ", OFFER],
        false => [""; 2],
    };
    for piece in [
        "GET ",
        path,
        " HTTP/1.1\r\nHost: ",
        host,
        "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: ",
        key,
        "\r\nSec-WebSocket-Protocol: ",
        subprotocol,
        extensions[0],
        extensions[1],
        "\r\n\r\n",
    ] {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// A WebSocket that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Bytes of the server's answer, after which frames begin.
    pub bytes: usize,
    /// Whether messages may come compressed.
    pub deflate: bool,
}

/// Checks the answer to [`client_request`], whose last argument is `deflate` here as well. `None` while
/// its header is incomplete.
///
/// # Errors
/// [`HandshakeError`] for anything but an upgrade with the right key and subprotocol, and with no
/// extension but the one that was offered.
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
    if header("sec-websocket-protocol") != Some(subprotocol.as_bytes()) {
        return Err(HandshakeError::WrongSubprotocol {
            wanted: subprotocol.to_owned(),
        });
    }
    let extension = header("sec-websocket-extensions");
    let allowed = |chosen| deflate && std::str::from_utf8(chosen).is_ok_and(answers_offer);
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
