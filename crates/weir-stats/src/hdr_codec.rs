//! The V2 encoding of HdrHistogram as base64, with bounded memory for any input.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{DeserializeError, Deserializer};

const V2_COMPRESSED_COOKIE: [u8; 4] = (0x1c84_9304_u32 | 0x10).to_be_bytes();
const HEADER_BYTES: usize = 40;
/// Upper limit: a full five-digit histogram with nine bytes per count is smaller.
const DECODED_BYTES_MAX: u64 = 64 << 20;

/// The reason why a text is not a histogram.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// Text that is not base64.
    #[error("histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Compressed bytes that cannot be decompressed.
    #[error("histogram cannot be decompressed: {0}")]
    Inflate(#[from] std::io::Error),
    /// Bytes that are not a V2 encoding, or whose header or counts are not valid.
    #[error("histogram is not a valid HdrHistogram V2 encoding: {0}")]
    Format(#[from] DeserializeError),
    /// An incomplete histogram.
    #[error("histogram ends early")]
    Truncated,
    /// A decompressed size that exceeds any real histogram.
    #[error("histogram decompresses to more than {DECODED_BYTES_MAX} bytes")]
    TooLarge,
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads a histogram, compressed or not.
///
/// The library allocates as much as a length field requests, so the lengths are checked first.
pub(crate) fn from_base64(text: &str) -> Result<Histogram<u64>, HistogramError> {
    let mut bytes = STANDARD.decode(text.trim())?;
    if bytes.starts_with(&V2_COMPRESSED_COOKIE) {
        let packed_bytes = length_field(&bytes)?;
        let packed = bytes[8..].get(..packed_bytes);
        bytes = inflate(packed.ok_or(HistogramError::Truncated)?)?;
        if bytes.starts_with(&V2_COMPRESSED_COOKIE) {
            return Err(DeserializeError::InvalidCookie.into());
        }
    }
    let payload_bytes = length_field(&bytes)?;
    let payload = bytes.get(HEADER_BYTES..).unwrap_or_default();
    // The library negates counts; the lowest one has no positive counterpart.
    if payload.windows(9).any(|count| count == [0xff; 9]) {
        return Err(DeserializeError::UnsuitableCounterType.into());
    }
    if bytes.len() >= HEADER_BYTES && payload.len() < payload_bytes {
        return Err(HistogramError::Truncated);
    }
    Ok(Deserializer::new().deserialize(&mut bytes.as_slice())?)
}

fn inflate(packed: &[u8]) -> Result<Vec<u8>, HistogramError> {
    let mut plain = Vec::new();
    ZlibDecoder::new(packed)
        .take(DECODED_BYTES_MAX + 1)
        .read_to_end(&mut plain)?;
    match plain.len() as u64 > DECODED_BYTES_MAX {
        true => Err(HistogramError::TooLarge),
        false => Ok(plain),
    }
}

/// Returns the length of the bytes that follow, which is the second field of both encodings.
fn length_field(bytes: &[u8]) -> Result<usize, HistogramError> {
    let field = bytes.get(4..8).and_then(|field| field.try_into().ok());
    let length = field.map(u32::from_be_bytes);
    Ok(length.ok_or(HistogramError::Truncated)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use proptest::prelude::*;

    /// The first interval of a log from the HdrHistogram project's test data.
    const EXTERNAL: &str = "HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkh\
        IR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=";

    #[test]
    fn external_histogram_reads_as_with_the_library() {
        let bytes = STANDARD.decode(EXTERNAL).unwrap();
        let theirs: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .unwrap();
        let ours = Histogram::from_base64(EXTERNAL).unwrap();
        assert_eq!(ours.count(), theirs.len());
        for percentile in [0.0, 50.0, 99.0, 100.0] {
            // The external histogram has two digits only, so equal means within one of its buckets.
            let expected = theirs.value_at_percentile(percentile);
            assert!(theirs.equivalent(ours.percentile_ns(percentile).unwrap(), expected));
        }
    }

    #[test]
    fn damage_is_reported() {
        let text = |bytes: &[u8]| Histogram::from_base64(&to_base64(bytes)).unwrap_err();
        assert!(matches!(text(&[]), HistogramError::Truncated));
        assert!(matches!(
            text(b"abcdefgh"),
            HistogramError::Format(DeserializeError::InvalidCookie)
        ));
        assert!(matches!(
            Histogram::from_base64("***"),
            Err(HistogramError::Base64(_))
        ));
        let good = STANDARD.decode(EXTERNAL).unwrap();
        assert!(Histogram::from_base64(&to_base64(&good[..good.len() - 9])).is_err());
    }

    #[test]
    fn lowest_count_is_rejected() {
        let count = Histogram::from_base64(&plain(&[0xff; 9], 3, 1));
        assert!(matches!(count, Err(HistogramError::Format(_))));
    }

    #[test]
    fn length_beyond_the_input_is_rejected() {
        let mut bytes = STANDARD.decode(plain(&[2], 3, 1)).unwrap();
        bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        let length = Histogram::from_base64(&to_base64(&bytes));
        assert!(matches!(length, Err(HistogramError::Truncated)));
    }

    fn plain(payload: &[u8], digits: u32, lowest: u64) -> String {
        let mut bytes = (0x1c84_9303_u32 | 0x10).to_be_bytes().to_vec();
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(digits.to_be_bytes());
        bytes.extend(lowest.to_be_bytes());
        bytes.extend(u64::MAX.to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes.extend(payload);
        to_base64(&bytes)
    }

    proptest! {
        #[test]
        fn random_text_never_panics(text in "\\PC{0,80}") {
            let _ = Histogram::from_base64(&text);
        }

        #[test]
        fn random_payload_never_panics(
            payload in proptest::collection::vec(any::<u8>(), 0..60),
            digits in 0_u32..7,
            lowest in any::<u64>(),
        ) {
            let _ = Histogram::from_base64(&plain(&payload, digits, lowest));
            let _ = Histogram::from_base64(&plain(&payload, 3, 1));
        }
    }
}
