//! ApiVersions version 0: the versions of each API that a broker supports.

use kafka_protocol::messages::{ApiKey, ApiVersionsRequest};

use super::WireError;
use super::reader::WireReader;

/// Version that every broker responds to.
pub const VERSION: i16 = 0;

/// Ranges of supported versions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiVersions {
    /// Kafka error code, 0 for none.
    pub error: i16,
    /// API key, oldest and latest version.
    ranges: Vec<(i16, i16, i16)>,
}

impl ApiVersions {
    /// Returns a request.
    pub fn request() -> ApiVersionsRequest {
        ApiVersionsRequest::default()
    }

    /// Reads the body of a response.
    pub fn read(body: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(body);
        let error = reader.i16("error code")?;
        let count = reader.count(6, "API versions")?;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let key = reader.i16("API key")?;
            let oldest = reader.i16("oldest version")?;
            ranges.push((key, oldest, reader.i16("latest version")?));
        }
        Ok(Self { error, ranges })
    }

    /// Returns `true` if the broker supports a version of an API.
    pub fn supports(&self, key: ApiKey, version: i16) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(found, oldest, latest)| {
            *found == key as i16 && (*oldest..=*latest).contains(&version)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::ApiVersionsResponse;
    use kafka_protocol::messages::api_versions_response::ApiVersion;
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    #[test]
    fn encoded_versions_are_supported() {
        let fetch = ApiVersion::default()
            .with_api_key(ApiKey::Fetch as i16)
            .with_min_version(4)
            .with_max_version(13);
        let response = ApiVersionsResponse::default().with_api_keys(vec![fetch]);
        let mut bytes = BytesMut::new();
        response.encode(&mut bytes, VERSION).expect("encodes");
        let found = ApiVersions::read(&bytes).expect("valid");
        for (version, is_supported) in [(3, false), (4, true), (13, true), (14, false)] {
            assert_eq!(found.supports(ApiKey::Fetch, version), is_supported);
        }
        assert!(!found.supports(ApiKey::Metadata, 7));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ApiVersions::read(&bytes);
        }
    }
}
