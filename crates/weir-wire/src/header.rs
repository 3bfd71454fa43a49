//! Request and response headers: header versions, and encoding of requests.

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader};
use kafka_protocol::protocol::{Encodable, Request, StrBytes};

use super::frame::SIZE_BYTES;
use super::reader::WireReader;
use super::{EncodeError, WireError};

/// Returns the request header version of `api_version` of the API `key`.
pub fn request_header_version(key: i16, api_version: i16) -> Result<i16, WireError> {
    let api = ApiKey::try_from(key).map_err(|()| WireError::ApiKey { key })?;
    Ok(api.request_header_version(api_version))
}

/// Returns the response header version of `api_version` of the API `key`. It is always 0 for
/// ApiVersions, so that clients can read the response to an unsupported version.
pub fn response_header_version(key: i16, api_version: i16) -> Result<i16, WireError> {
    let api = ApiKey::try_from(key).map_err(|()| WireError::ApiKey { key })?;
    Ok(api.response_header_version(api_version))
}

/// Fields that all versions of the request header start with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPeek {
    /// Key of the API.
    pub api_key: i16,
    /// API version.
    pub api_version: i16,
    /// Correlation id; the response repeats it.
    pub correlation_id: i32,
}

impl RequestPeek {
    /// Reads the first eight bytes of a request frame without prefix.
    pub fn read(frame: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(frame);
        Ok(Self {
            api_key: reader.i16("API key")?,
            api_version: reader.i16("API version")?,
            correlation_id: reader.i32("correlation id")?,
        })
    }
}

/// Splits a response with header version 0 into correlation id and body.
pub fn read_response_v0(frame: &[u8]) -> Result<(i32, &[u8]), WireError> {
    let mut reader = WireReader::new(frame);
    let correlation_id = reader.i32("correlation id")?;
    Ok((correlation_id, reader.rest()))
}

/// Appends a request to `out`: size prefix, header, body.
pub fn write_request<R: Request>(
    out: &mut BytesMut,
    version: i16,
    correlation_id: i32,
    client_id: &str,
    body: &R,
) -> Result<(), EncodeError> {
    let failed = |reason: String| EncodeError {
        api: ApiKey::try_from(R::KEY)
            .map_or_else(|()| R::KEY.to_string(), |key| format!("{key:?}")),
        reason,
    };
    let start = out.len();
    out.put_i32(0);
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_string(client_id.to_owned())));
    header
        .encode(out, R::header_version(version))
        .and_then(|()| body.encode(out, version))
        .map_err(|error| failed(error.to_string()))?;
    let size = i32::try_from(out.len() - start - SIZE_BYTES)
        .map_err(|_| failed("exceeds the maximum frame size".to_owned()))?;
    out[start..start + SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::{FetchRequest, RequestHeader};
    use kafka_protocol::protocol::Decodable;

    #[test]
    fn flexible_api_versions_use_newer_headers() {
        let fetch = ApiKey::Fetch as i16;
        assert_eq!(request_header_version(fetch, 11), Ok(1));
        assert_eq!(request_header_version(fetch, 12), Ok(2));
        assert_eq!(response_header_version(fetch, 11), Ok(0));
        assert_eq!(response_header_version(fetch, 12), Ok(1));
        let versions = ApiKey::ApiVersions as i16;
        assert_eq!(request_header_version(versions, 3), Ok(2));
        assert_eq!(response_header_version(versions, 3), Ok(0));
        let unknown = Err(WireError::ApiKey { key: 30_000 });
        assert_eq!(request_header_version(30_000, 0), unknown);
        assert_eq!(response_header_version(30_000, 0), unknown);
    }

    #[test]
    fn request_round_trips() {
        let mut out = BytesMut::from(&b"before"[..]);
        let body = FetchRequest::default().with_max_wait_ms(7);
        write_request(&mut out, 11, 42, "me", &body).expect("encodes");
        let frame = &out[6 + SIZE_BYTES..];
        let size = i32::from_be_bytes(out[6..10].try_into().expect("four bytes"));
        assert_eq!(size as usize, frame.len());
        let peek = RequestPeek::read(frame).expect("header");
        assert_eq!(
            peek,
            RequestPeek {
                api_key: ApiKey::Fetch as i16,
                api_version: 11,
                correlation_id: 42
            }
        );
        let mut bytes = bytes::Bytes::copy_from_slice(frame);
        let header = RequestHeader::decode(&mut bytes, 1).expect("header v1");
        assert_eq!(header.client_id.as_deref(), Some("me"));
        assert_eq!(FetchRequest::decode(&mut bytes, 11).expect("body"), body);
    }
}
