//! ApiVersions: what a client is told it may use, which is what broker and proxy both carry.

use weir_kafka::wire::WireError;
use weir_kafka::wire::reader::WireReader;

use super::SIZE_BYTES;
use super::addresses::put_uvarint;
use super::features;
use super::headers::ANSWER_PEEK_BYTES;
use crate::versions::{API_VERSIONS, SupportedVersions, flexible};

/// UNSUPPORTED_VERSION.
const UNSUPPORTED: i16 = 35;
/// The most APIs a broker may claim to have: no more than are carried come out.
const ENTRY_BYTES: usize = 6;

/// The broker's answer, given and made with its prefix, cut to what is on offer.
///
/// # Errors
/// An answer that is not what its version says.
pub(super) fn restrict(
    frame: &[u8],
    version: i16,
    offer: &SupportedVersions,
) -> Result<Vec<u8>, WireError> {
    let mut reader = WireReader::new(frame);
    let head = reader.bytes(ANSWER_PEEK_BYTES, "header")?;
    let error = reader.i16("error code")?;
    // A broker that does not know the version answers in the form of version 0.
    let version = if error == UNSUPPORTED { 0 } else { version };
    let is_flexible = flexible(API_VERSIONS, version);
    let count = match is_flexible {
        true => reader.compact_count(ENTRY_BYTES + 1, "apis")?,
        false => reader.count(ENTRY_BYTES, "apis")?,
    };
    let mut kept = Vec::with_capacity(count.min(128));
    for _ in 0..count {
        let key = reader.i16("api key")?;
        let (min, max) = (reader.i16("min version")?, reader.i16("max version")?);
        if is_flexible {
            reader.skip_tags("api tags")?;
        }
        kept.extend(
            offer
                .common(key, min, max)
                .map(|(min, max)| Api { key, min, max }),
        );
    }
    let mut out = Vec::with_capacity(frame.len());
    out.extend_from_slice(head);
    put_apis(&mut out, error, &kept, is_flexible);
    if version >= 1 {
        out.extend_from_slice(reader.bytes(4, "throttle time")?);
    }
    if is_flexible {
        features::keep_consistent(&mut reader, &kept, &mut out)?;
    }
    out.extend_from_slice(reader.rest());
    set_size(&mut out);
    Ok(out)
}

/// The answer to a version that is not on offer, as brokers give it: error 35 in the form of version
/// 0, with the versions of ApiVersions itself.
pub(super) fn unsupported(correlation_id: i32, offer: &SupportedVersions) -> Vec<u8> {
    let range = offer.range(API_VERSIONS).unwrap_or_default();
    let mut out = vec![0; SIZE_BYTES];
    out.extend_from_slice(&correlation_id.to_be_bytes());
    let ours = Api {
        key: API_VERSIONS,
        min: range.0,
        max: range.1,
    };
    put_apis(&mut out, UNSUPPORTED, &[ours], false);
    set_size(&mut out);
    out
}

/// An API with its versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Api {
    pub(super) key: i16,
    pub(super) min: i16,
    pub(super) max: i16,
}

fn put_apis(out: &mut Vec<u8>, error: i16, apis: &[Api], flexible: bool) {
    out.extend_from_slice(&error.to_be_bytes());
    if flexible {
        put_uvarint(out, apis.len() as u32 + 1);
    } else {
        out.extend_from_slice(&(apis.len() as i32).to_be_bytes());
    }
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
                api(FETCH, 4, 18),
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
        offer: &SupportedVersions,
    ) -> ApiVersionsResponse {
        let mut body = BytesMut::new();
        message.encode(&mut body, version).expect("encodes");
        let mut frame = ((body.len() + 4) as i32).to_be_bytes().to_vec();
        frame.extend(77_i32.to_be_bytes());
        frame.extend_from_slice(&body);
        let made = restrict(&frame, version, offer).expect("restricts");
        let size = i32::from_be_bytes(made[..4].try_into().expect("four"));
        assert_eq!(size as usize, made.len() - 4);
        assert_eq!(made[4..8], 77_i32.to_be_bytes());
        let mut rest = Bytes::copy_from_slice(&made[8..]);
        let answer = ApiVersionsResponse::decode(&mut rest, version).expect("decodes");
        assert!(rest.is_empty());
        answer
    }

    #[test]
    fn only_what_both_carry_is_told() {
        let offer = SupportedVersions::new(|_| None);
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
            let answer = restricted(&message, version, &offer);
            let wanted = vec![
                api(PRODUCE, 0, 13),
                api(FETCH, 4, 15),
                api(18, 0, 4),
                api(26, 0, 5),
                api(28, 0, 5),
                api(SHARE_FETCH, 1, 2),
            ];
            assert_eq!(answer, message.with_api_keys(wanted), "version {version}");
        }
    }

    #[test]
    fn features_go_with_the_versions_they_need() {
        let without_shares = SupportedVersions::new(|key| match key {
            PRODUCE => Some(11),
            SHARE_FETCH => Some(-1),
            _ => None,
        });
        let answer = restricted(&broker(), 4, &without_shares);
        let finalized: Vec<_> = answer
            .finalized_features
            .iter()
            .map(|feature| (feature.name.as_str(), feature.max_version_level))
            .collect();
        assert_eq!(
            finalized,
            [("transaction.version", 1), ("metadata.version", 29)]
        );
        assert_eq!(answer.supported_features[0].max_version, 1);
        assert_eq!(answer.finalized_features_epoch, 5);
    }

    #[test]
    fn a_broker_that_does_not_know_the_version_answers_in_the_oldest_form() {
        let offer = SupportedVersions::new(|_| None);
        let theirs = unsupported(3, &SupportedVersions::new(|_| Some(3)));
        let made = restrict(&theirs, 4, &offer).expect("restricts");
        assert_eq!(made, theirs);
        let mut body = Bytes::copy_from_slice(&made[8..]);
        let answer = ApiVersionsResponse::decode(&mut body, 0).expect("decodes");
        assert_eq!(answer.error_code, 35);
        assert_eq!(answer.api_keys, [api(18, 0, 3)]);
    }
}
