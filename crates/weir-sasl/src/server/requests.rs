//! Requests and responses of a login as bytes: SaslHandshake versions 0 and 1, SaslAuthenticate
//! versions 0 to 2. Frames include the size prefix.

use weir_wire::WireError;
use weir_wire::layout::{put_length, put_string};
use weir_wire::reader::WireReader;

pub(super) const HANDSHAKE: i16 = 17;
pub(super) const API_VERSIONS: i16 = 18;
pub(super) const AUTHENTICATE: i16 = 36;
/// Version from which on SaslAuthenticate is flexible.
const FLEXIBLE_VERSION: i16 = 2;
/// Version from which on responses contain the lifetime of the session.
const LIFETIME_VERSION: i16 = 1;
const SIZE_BYTES: usize = 4;

/// Request of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoginRequest<'a> {
    pub(super) to: ReplyTo,
    pub(super) body: LoginBody<'a>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoginBody<'a> {
    /// Name of the mechanism.
    Handshake(&'a str),
    /// Message of the mechanism.
    Authenticate(&'a [u8]),
}

/// Form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyTo {
    Handshake {
        correlation_id: i32,
    },
    Authenticate {
        correlation_id: i32,
        version: i16,
    },
    /// A raw token, which has no header and no error code.
    Raw,
}

/// Reads a whole request. Returns `None` for another API or an unknown version.
pub(super) fn read(frame: &[u8]) -> Result<Option<LoginRequest<'_>>, WireError> {
    let mut reader = WireReader::new(frame);
    reader.bytes(SIZE_BYTES, "size")?;
    let (key, version) = (reader.i16("API key")?, reader.i16("API version")?);
    let correlation_id = reader.i32("correlation id")?;
    reader.nullable_string("client id")?;
    Ok(match (key, version) {
        (HANDSHAKE, 0..=1) => Some(LoginRequest {
            to: ReplyTo::Handshake { correlation_id },
            body: LoginBody::Handshake(reader.string("mechanism")?),
        }),
        (AUTHENTICATE, 0..=2) => {
            let message = match version >= FLEXIBLE_VERSION {
                true => {
                    reader.skip_tags("header tags")?;
                    reader.compact_bytes("token")?
                }
                false => reader.nullable_bytes("token")?,
            };
            let to = ReplyTo::Authenticate {
                correlation_id,
                version,
            };
            let body = LoginBody::Authenticate(message.unwrap_or_default());
            Some(LoginRequest { to, body })
        }
        _ => None,
    })
}

/// Returns `true` if tokens follow a handshake of this frame without request headers.
pub(super) fn is_raw(frame: &[u8]) -> bool {
    frame.get(SIZE_BYTES + 2..SIZE_BYTES + 4) == Some(&[0, 0])
}

/// Returns the response to a handshake.
pub(super) fn handshake(correlation_id: i32, error: i16, mechanisms: &[&str]) -> Vec<u8> {
    let mut out = begin(correlation_id);
    out.extend_from_slice(&error.to_be_bytes());
    put_length(&mut out, false, mechanisms.len());
    for name in mechanisms {
        put_string(&mut out, false, name);
    }
    end(out)
}

/// Returns the response to a token.
pub(super) fn token(to: ReplyTo, token: &[u8], lifetime_ms: i64) -> Vec<u8> {
    match to {
        ReplyTo::Raw => {
            let mut out = vec![0; SIZE_BYTES];
            out.extend_from_slice(token);
            end(out)
        }
        _ => response(to, 0, None, token, lifetime_ms),
    }
}

/// Returns the response that ends a login with an error, or `None` for raw tokens, which have no
/// errors.
pub(super) fn error(to: ReplyTo, error: i16, text: &str) -> Option<Vec<u8>> {
    match to {
        ReplyTo::Raw => None,
        ReplyTo::Handshake { correlation_id } => Some(handshake(correlation_id, error, &[])),
        ReplyTo::Authenticate { .. } => Some(response(to, error, Some(text), &[], 0)),
    }
}

fn response(
    to: ReplyTo,
    error: i16,
    text: Option<&str>,
    token: &[u8],
    lifetime_ms: i64,
) -> Vec<u8> {
    let ReplyTo::Authenticate {
        correlation_id,
        version,
    } = to
    else {
        return Vec::new();
    };
    let is_flexible = version >= FLEXIBLE_VERSION;
    let mut out = begin(correlation_id);
    if is_flexible {
        out.push(0);
    }
    out.extend_from_slice(&error.to_be_bytes());
    match (is_flexible, text) {
        (true, None) => out.push(0),
        (false, None) => out.extend_from_slice(&(-1_i16).to_be_bytes()),
        (_, Some(text)) => put_string(&mut out, is_flexible, text),
    }
    put_length(&mut out, is_flexible, token.len());
    out.extend_from_slice(token);
    if version >= LIFETIME_VERSION {
        out.extend_from_slice(&lifetime_ms.to_be_bytes());
    }
    if is_flexible {
        out.push(0);
    }
    end(out)
}

fn begin(correlation_id: i32) -> Vec<u8> {
    let mut out = vec![0; SIZE_BYTES];
    out.extend_from_slice(&correlation_id.to_be_bytes());
    out
}

fn end(mut out: Vec<u8>) -> Vec<u8> {
    let size = (out.len() - SIZE_BYTES) as i32;
    out[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
    use kafka_protocol::protocol::StrBytes;
    use proptest::prelude::*;
    use weir_wire::header::write_request;
    use weir_wire::login;

    #[test]
    fn handshakes_are_read_and_answered() {
        for version in 0..=1 {
            let body =
                SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
            let mut out = BytesMut::new();
            write_request(&mut out, version, 7, "client", &body).expect("encodes");
            let to = ReplyTo::Handshake { correlation_id: 7 };
            let expected = LoginRequest {
                to,
                body: LoginBody::Handshake("PLAIN"),
            };
            assert_eq!(read(&out), Ok(Some(expected)));
            assert_eq!(is_raw(&out), version == 0);
        }
        let frame = handshake(7, 33, &["PLAIN", "SCRAM-SHA-256"]);
        assert_eq!(frame[..8], [0, 0, 0, 32, 0, 0, 0, 7]);
        let read = login::read_handshake(&frame[8..]).expect("valid");
        assert_eq!((read.error, read.mechanisms.len()), (33, 2));
    }

    proptest! {
        #[test]
        fn tokens_round_trip(
            version in 0_i16..=2,
            message in prop::collection::vec(any::<u8>(), 0..300),
            text in prop::option::of("[a-z]{0,200}"),
            lifetime_ms in any::<i64>(),
        ) {
            let body = SaslAuthenticateRequest::default()
                .with_auth_bytes(Bytes::from(message.clone()));
            let mut out = BytesMut::new();
            write_request(&mut out, version, -9, "c", &body).expect("encodes");
            let request = read(&out)?.expect("known");
            prop_assert_eq!(&request.body, &LoginBody::Authenticate(&message[..]));
            let frame = match &text {
                Some(text) => error(request.to, 58, text).expect("has a header"),
                None => token(request.to, &message, lifetime_ms),
            };
            prop_assert_eq!(frame[..4].to_vec(), ((frame.len() - 4) as i32).to_be_bytes().to_vec());
            let read = login::read_authenticate(&frame[8..], version)?;
            prop_assert_eq!(read.message, text.as_deref());
            prop_assert_eq!(read.error, if text.is_some() { 58 } else { 0 });
            if text.is_none() {
                prop_assert_eq!(read.token, &message[..]);
                prop_assert_eq!(read.lifetime_ms, if version == 0 { 0 } else { lifetime_ms });
            }
        }
    }

    #[test]
    fn raw_tokens_have_only_a_size() {
        assert_eq!(token(ReplyTo::Raw, b"ab", 5), [0, 0, 0, 2, b'a', b'b']);
        assert_eq!(error(ReplyTo::Raw, 58, "x"), None);
    }
}
