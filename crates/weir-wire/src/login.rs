//! Requests of a login: ApiVersions version 0, SaslHandshake version 1, SaslAuthenticate versions 0
//! to 2.

use bytes::Bytes;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::reader::WireReader;

/// Version of ApiVersions that every broker responds to.
pub const VERSIONS_VERSION: i16 = 0;
/// Version of SaslHandshake after which tokens are sent in SaslAuthenticate requests.
pub const HANDSHAKE_VERSION: i16 = 1;
/// Latest known version of SaslAuthenticate; the first one is 0.
pub const AUTHENTICATE_VERSION_MAX: i16 = 2;
/// Versions from this one on are flexible, and so are their headers.
const FLEXIBLE_VERSION: i16 = 2;
/// First version of SaslAuthenticate whose responses contain the lifetime of the session.
pub const LIFETIME_VERSION: i16 = 1;

/// Part of an ApiVersions response that a login needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct LoginVersions {
    pub error: i16,
    /// Latest version of SaslAuthenticate; `None` if the broker does not have this API.
    pub authenticate: Option<i16>,
}

/// Response to SaslHandshake.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct HandshakeResponse {
    pub error: i16,
    /// Mechanisms that the listener has.
    pub mechanisms: Vec<String>,
}

/// Response to SaslAuthenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct AuthenticateResponse<'a> {
    pub error: i16,
    pub message: Option<&'a str>,
    pub token: &'a [u8],
    /// Time after which the client must log in again; 0 for none.
    pub lifetime_ms: i64,
}

/// Returns a request for the supported versions.
pub fn versions() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
}

/// Reads the body of a response with versions.
pub fn read_versions(body: &[u8]) -> Result<LoginVersions, WireError> {
    let mut reader = WireReader::new(body);
    let error = reader.i16("error code")?;
    let mut authenticate = None;
    for _ in 0..reader.count(6, "API versions")? {
        let key = reader.i16("API key")?;
        reader.i16("oldest version")?;
        let latest = reader.i16("latest version")?;
        if key == ApiKey::SaslAuthenticate as i16 {
            authenticate = Some(latest);
        }
    }
    Ok(LoginVersions {
        error,
        authenticate,
    })
}

/// Returns a request to log in with this mechanism.
pub fn handshake(mechanism: &'static str) -> SaslHandshakeRequest {
    SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism))
}

/// Reads the body of a handshake response.
pub fn read_handshake(body: &[u8]) -> Result<HandshakeResponse, WireError> {
    let mut reader = WireReader::new(body);
    let error = reader.i16("error code")?;
    let mut mechanisms = Vec::new();
    for _ in 0..reader.count(2, "mechanisms")? {
        mechanisms.push(reader.string("mechanism")?.to_owned());
    }
    Ok(HandshakeResponse { error, mechanisms })
}

/// Returns a request with a token of the mechanism.
pub fn authenticate(token: Vec<u8>) -> SaslAuthenticateRequest {
    SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(token))
}

/// Reads a response of `version`; `frame` starts after the correlation id.
pub fn read_authenticate(
    frame: &[u8],
    version: i16,
) -> Result<AuthenticateResponse<'_>, WireError> {
    let mut reader = WireReader::new(frame);
    let is_flexible = version >= FLEXIBLE_VERSION;
    if is_flexible {
        reader.skip_tags("header tags")?;
    }
    let error = reader.i16("error code")?;
    let (message, token) = match is_flexible {
        true => (
            reader.compact_nullable_string("error message")?,
            reader.compact_bytes("token")?,
        ),
        false => (
            reader.nullable_string("error message")?,
            reader.nullable_bytes("token")?,
        ),
    };
    let lifetime_ms = match version >= LIFETIME_VERSION {
        true => reader.i64("session lifetime")?,
        false => 0,
    };
    Ok(AuthenticateResponse {
        error,
        message,
        token: token.unwrap_or_default(),
        lifetime_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};
    use kafka_protocol::messages::api_versions_response::ApiVersion;
    use kafka_protocol::messages::{
        ApiVersionsResponse, ResponseHeader, SaslAuthenticateResponse, SaslHandshakeResponse,
    };
    use kafka_protocol::protocol::{Encodable, HeaderVersion};
    use proptest::prelude::*;

    #[test]
    fn versions_of_the_login_are_found() {
        let range = |key: ApiKey, max| {
            let range = ApiVersion::default().with_api_key(key as i16);
            range.with_max_version(max)
        };
        let mut response = ApiVersionsResponse::default();
        response.api_keys = vec![range(ApiKey::Fetch, 17), range(ApiKey::SaslAuthenticate, 1)];
        let mut out = BytesMut::new();
        response
            .encode(&mut out, VERSIONS_VERSION)
            .expect("encodes");
        let found = read_versions(&out).expect("reads");
        assert_eq!((found.error, found.authenticate), (0, Some(1)));
    }

    #[test]
    fn mechanisms_are_read() {
        let names = ["PLAIN", "SCRAM-SHA-256"].map(StrBytes::from_static_str);
        let response = SaslHandshakeResponse::default()
            .with_error_code(33)
            .with_mechanisms(names.to_vec());
        let mut out = BytesMut::new();
        response
            .encode(&mut out, HANDSHAKE_VERSION)
            .expect("encodes");
        let found = read_handshake(&out).expect("reads");
        assert_eq!(found.error, 33);
        assert_eq!(found.mechanisms, ["PLAIN", "SCRAM-SHA-256"]);
    }

    proptest! {
        #[test]
        fn authenticate_responses_round_trip(
            version in 0_i16..=AUTHENTICATE_VERSION_MAX,
            error in any::<i16>(),
            message in prop::option::of("[a-z]{0,300}"),
            token in prop::collection::vec(any::<u8>(), 0..300),
            lifetime_ms in any::<i64>(),
        ) {
            let lifetime_ms = if version == 0 { 0 } else { lifetime_ms };
            let response = SaslAuthenticateResponse::default()
                .with_error_code(error)
                .with_error_message(message.clone().map(StrBytes::from_string))
                .with_auth_bytes(Bytes::from(token.clone()))
                .with_session_lifetime_ms(lifetime_ms);
            let mut out = BytesMut::new();
            let header = ResponseHeader::default();
            let header_version = SaslAuthenticateResponse::header_version(version);
            header.encode(&mut out, header_version).expect("header");
            response.encode(&mut out, version).expect("encodes");
            // The correlation id has been read.
            let read = read_authenticate(&out[4..], version)?;
            prop_assert_eq!(read.error, error);
            prop_assert_eq!(read.message, message.as_deref());
            prop_assert_eq!(read.token, &token[..]);
            prop_assert_eq!(read.lifetime_ms, lifetime_ms);
        }

        #[test]
        fn random_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80), version in 0_i16..3,
        ) {
            let _ = read_versions(&bytes);
            let _ = read_handshake(&bytes);
            let _ = read_authenticate(&bytes, version);
        }
    }

    #[test]
    fn announced_mechanism_count_allocates_nothing() {
        let mut out = BytesMut::new();
        out.put_i16(0);
        out.put_i32(1 << 30);
        assert!(read_handshake(&out).is_err());
    }
}
