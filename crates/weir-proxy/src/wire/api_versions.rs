//! ApiVersions responses: reduces the versions to those that both broker and proxy support.

use weir_wire::WireError;
use weir_wire::layout::put_length;
use weir_wire::reader::WireReader;

use super::SIZE_BYTES;
use super::features::{self, Api};
use super::headers::RESPONSE_PEEK_BYTES;
use crate::versions::{API_VERSIONS, SupportedVersions, flexible};

const UNSUPPORTED: i16 = 35;
/// Bytes of an API entry: key, minimum and maximum version.
const ENTRY_BYTES: usize = 6;

/// Returns the broker's response, reduced to the supported versions. Both frames include the size
/// prefix.
pub(super) fn restrict(
    frame: &[u8],
    version: i16,
    supported: &SupportedVersions,
) -> Result<Vec<u8>, WireError> {
    let mut reader = WireReader::new(frame);
    let head = reader.bytes(RESPONSE_PEEK_BYTES, "header")?;
    let error = reader.i16("error code")?;
    // A broker that does not know the version responds in the format of version 0.
    let version = if error == UNSUPPORTED { 0 } else { version };
    let is_flexible = flexible(API_VERSIONS, version);
    let count = match is_flexible {
        true => reader.compact_count(ENTRY_BYTES + 1, "apis")?,
        false => reader.count(ENTRY_BYTES, "apis")?,
    };
    let mut common = Vec::with_capacity(count.min(128));
    for _ in 0..count {
        let key = reader.i16("api key")?;
        let (min, max) = (reader.i16("min version")?, reader.i16("max version")?);
        if is_flexible {
            reader.skip_tags("api tags")?;
        }
        let range = supported.common(key, min, max);
        common.extend(range.map(|(min, max)| Api { key, min, max }));
    }
    let mut out = Vec::with_capacity(frame.len());
    out.extend_from_slice(head);
    put_apis(&mut out, error, &common, is_flexible);
    if version >= 1 {
        out.extend_from_slice(reader.bytes(4, "throttle time")?);
    }
    if is_flexible {
        features::keep_consistent(&mut reader, &common, &mut out)?;
    }
    out.extend_from_slice(reader.rest());
    set_size(&mut out);
    Ok(out)
}

/// Returns the response to an unsupported version. As with brokers, it is error 35 in the format of
/// version 0, with the versions of ApiVersions.
pub(super) fn unsupported(correlation_id: i32, supported: &SupportedVersions) -> Vec<u8> {
    let (min, max) = supported.range(API_VERSIONS).unwrap_or_default();
    let mut out = vec![0; SIZE_BYTES];
    out.extend_from_slice(&correlation_id.to_be_bytes());
    let key = API_VERSIONS;
    put_apis(&mut out, UNSUPPORTED, &[Api { key, min, max }], false);
    set_size(&mut out);
    out
}

fn put_apis(out: &mut Vec<u8>, error: i16, apis: &[Api], flexible: bool) {
    out.extend_from_slice(&error.to_be_bytes());
    put_length(out, flexible, apis.len());
    for api in apis {
        for number in [api.key, api.min, api.max] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        if flexible {
            out.push(0);
        }
    }
}

fn set_size(frame: &mut [u8]) {
    let size = (frame.len() - SIZE_BYTES) as i32;
    frame[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::{FETCH, PRODUCE, SHARE_FETCH};
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::ApiVersionsResponse;
    use kafka_protocol::messages::api_versions_response::{
        ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
    };
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    fn api(key: i16, min: i16, max: i16) -> ApiVersion {
        ApiVersion::default()
            .with_api_key(key)
            .with_min_version(min)
            .with_max_version(max)
    }

    fn broker() -> ApiVersionsResponse {
        let supported = |name: &str, max| {
            SupportedFeatureKey::default()
                .with_name(StrBytes::from_string(name.to_owned()))
                .with_max_version(max)
        };
        let finalized = |name: &str, max| {
            FinalizedFeatureKey::default()
                .with_name(StrBytes::from_string(name.to_owned()))
                .with_max_version_level(max)
        };
        ApiVersionsResponse::default()
            .with_throttle_time_ms(11)
            .with_api_keys(vec![
                api(PRODUCE, 0, 99),
                api(FETCH, 4, 19),
                api(18, 0, 4),
                api(26, 0, 5),
                api(28, 0, 5),
                api(58, 0, 0),
                api(SHARE_FETCH, 1, 2),
                api(20_000, 0, 3),
            ])
            .with_supported_features(vec![
                supported("transaction.version", 2),
                supported("metadata.version", 29),
            ])
            .with_finalized_features_epoch(5)
            .with_finalized_features(vec![
                finalized("transaction.version", 2),
                finalized("metadata.version", 29),
                finalized("share.version", 1),
            ])
    }

    fn restricted(
        message: &ApiVersionsResponse,
        version: i16,
        supported: &SupportedVersions,
    ) -> ApiVersionsResponse {
        let mut body = BytesMut::new();
        message.encode(&mut body, version).expect("encodes");
        let mut frame = ((body.len() + 4) as i32).to_be_bytes().to_vec();
        frame.extend(77_i32.to_be_bytes());
        frame.extend_from_slice(&body);
        let made = restrict(&frame, version, supported).expect("restricts");
        let size = i32::from_be_bytes(made[..4].try_into().expect("four"));
        assert_eq!(size as usize, made.len() - 4);
        assert_eq!(made[4..8], 77_i32.to_be_bytes());
        let mut rest = Bytes::copy_from_slice(&made[8..]);
        let response = ApiVersionsResponse::decode(&mut rest, version).expect("decodes");
        assert!(rest.is_empty());
        response
    }

    #[test]
    fn response_contains_only_common_versions() {
        let supported = SupportedVersions::new(|_| None);
        for version in 0..=4 {
            let mut message = broker();
            if version < 3 {
                message.supported_features.clear();
                message.finalized_features.clear();
                message.finalized_features_epoch = -1;
            }
            if version == 0 {
                message.throttle_time_ms = 0;
            }
            let response = restricted(&message, version, &supported);
            let wanted = vec![
                api(PRODUCE, 0, 13),
                api(FETCH, 4, 18),
                api(18, 0, 4),
                api(26, 0, 5),
                api(28, 0, 5),
                api(SHARE_FETCH, 1, 2),
            ];
            assert_eq!(response, message.with_api_keys(wanted), "version {version}");
        }
    }

    #[test]
    fn features_are_lowered_to_supported_versions() {
        let without_shares = SupportedVersions::new(|key| match key {
            PRODUCE => Some(11),
            SHARE_FETCH => Some(-1),
            _ => None,
        });
        let response = restricted(&broker(), 4, &without_shares);
        let finalized: Vec<_> = response
            .finalized_features
            .iter()
            .map(|feature| (feature.name.as_str(), feature.max_version_level))
            .collect();
        assert_eq!(
            finalized,
            [("transaction.version", 1), ("metadata.version", 29)]
        );
        assert_eq!(response.supported_features[0].max_version, 1);
        assert_eq!(response.finalized_features_epoch, 5);
    }

    #[test]
    fn unsupported_version_response_keeps_version_0_format() {
        let supported = SupportedVersions::new(|_| None);
        let theirs = unsupported(3, &SupportedVersions::new(|_| Some(3)));
        let made = restrict(&theirs, 4, &supported).expect("restricts");
        assert_eq!(made, theirs);
        let mut body = Bytes::copy_from_slice(&made[8..]);
        let response = ApiVersionsResponse::decode(&mut body, 0).expect("decodes");
        assert_eq!(response.error_code, 35);
        assert_eq!(response.api_keys, [api(18, 0, 3)]);
    }
}
