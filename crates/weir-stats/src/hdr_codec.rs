//! A reader for the V2 encoding of HdrHistogram with bounded memory for any input.
//!
//! The library's reader allocates as much as a length field requests; this one checks the field
//! first.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;

const V2_COOKIE: u32 = 0x1c84_9303 | 0x10;
const V2_COMPRESSED_COOKIE: u32 = 0x1c84_9304 | 0x10;
const HEADER_BYTES: usize = 40;
/// Upper limit: a full five-digit histogram with nine bytes per count is smaller.
const DECODED_BYTES_MAX: u64 = 64 << 20;
const DIGITS_MAX: u32 = 5;

/// The reason why a text is not a histogram.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// Text that is not base64.
    #[error("histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Compressed bytes that cannot be decompressed.
    #[error("histogram cannot be decompressed: {0}")]
    Inflate(#[from] std::io::Error),
    /// First four bytes that do not identify a V2 encoding.
    #[error("histogram starts with {0:#010x}, expected an HdrHistogram V2 encoding")]
    Cookie(u32),
    /// An incomplete histogram.
    #[error("histogram ends early")]
    Truncated,
    /// A decompressed size that exceeds any real histogram.
    #[error("histogram decompresses to more than {DECODED_BYTES_MAX} bytes")]
    TooLarge,
    /// A header field with an unsupported value.
    #[error("histogram header field {field} has unsupported value {value}")]
    Header {
        /// Name of the field in the V2 description.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
    /// A count or an index outside the histogram's range.
    #[error("histogram contains a count outside its range")]
    OutOfRange,
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Calls `record(value, count)` for every bucket that contains values.
pub(crate) fn decode(text: &str, record: impl FnMut(u64, u64)) -> Result<(), HistogramError> {
    let bytes = STANDARD.decode(text.trim())?;
    match be_u32(&bytes, 0)? {
        V2_COOKIE => decode_plain(&bytes, record),
        V2_COMPRESSED_COOKIE => decode_plain(&inflate(&bytes)?, record),
        other => Err(HistogramError::Cookie(other)),
    }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, HistogramError> {
    let packed_bytes = be_u32(bytes, 4)? as usize;
    let packed = bytes[8..]
        .get(..packed_bytes)
        .ok_or(HistogramError::Truncated)?;
    let mut plain = Vec::new();
    ZlibDecoder::new(packed)
        .take(DECODED_BYTES_MAX + 1)
        .read_to_end(&mut plain)?;
    if plain.len() as u64 > DECODED_BYTES_MAX {
        return Err(HistogramError::TooLarge);
    }
    match be_u32(&plain, 0)? {
        V2_COOKIE => Ok(plain),
        other => Err(HistogramError::Cookie(other)),
    }
}

fn decode_plain(bytes: &[u8], mut record: impl FnMut(u64, u64)) -> Result<(), HistogramError> {
    let payload_bytes = be_u32(bytes, 4)? as usize;
    let layout = BucketLayout::read(bytes)?;
    let payload = bytes
        .get(HEADER_BYTES..)
        .and_then(|rest| rest.get(..payload_bytes))
        .ok_or(HistogramError::Truncated)?;
    let mut rest = payload;
    let mut index = 0_u64;
    while !rest.is_empty() {
        let count = zig_zag(varint(&mut rest)?);
        if count < 0 {
            index = index
                .checked_add(count.unsigned_abs())
                .ok_or(HistogramError::OutOfRange)?;
            continue;
        }
        if count > 0 {
            record(layout.value(index)?, count.unsigned_abs());
        }
        index += 1;
    }
    Ok(())
}

/// The mapping from index to value: `half` linear steps per power of two.
struct BucketLayout {
    unit_magnitude: u32,
    half_magnitude: u32,
}

impl BucketLayout {
    fn read(bytes: &[u8]) -> Result<Self, HistogramError> {
        let normalizing = be_u32(bytes, 8)?;
        if normalizing != 0 {
            return Err(header("normalizing index offset", u64::from(normalizing)));
        }
        let digits = be_u32(bytes, 12)?;
        if digits > DIGITS_MAX {
            return Err(header("significant digits", u64::from(digits)));
        }
        let lowest = be_u64(bytes, 16)?;
        if lowest == 0 || lowest > u64::MAX >> 18 {
            return Err(header("lowest value", lowest));
        }
        let ratio_bits = be_u64(bytes, 32)?;
        if ratio_bits != 1.0_f64.to_bits() {
            return Err(header("integer to double ratio", ratio_bits));
        }
        let steps = 2 * 10_u64.pow(digits);
        Ok(Self {
            unit_magnitude: lowest.ilog2(),
            half_magnitude: steps.next_power_of_two().ilog2() - 1,
        })
    }

    /// Returns the lowest value counted at `index`.
    fn value(&self, index: u64) -> Result<u64, HistogramError> {
        let half = 1_u64 << self.half_magnitude;
        let (bucket, step) = match index >> self.half_magnitude {
            0 => (0, index),
            octave => (octave - 1, (index & (half - 1)) + half),
        };
        let shift = u32::try_from(bucket)
            .ok()
            .and_then(|bucket| bucket.checked_add(self.unit_magnitude))
            .ok_or(HistogramError::OutOfRange)?;
        if shift > step.leading_zeros() {
            return Err(HistogramError::OutOfRange);
        }
        // A shift by 64 remains only for step 0, whose value is 0 in every bucket.
        Ok(step.checked_shl(shift).unwrap_or(0))
    }
}

fn header(field: &'static str, value: u64) -> HistogramError {
    HistogramError::Header { field, value }
}

fn be_u32(bytes: &[u8], at: usize) -> Result<u32, HistogramError> {
    let field = bytes
        .get(at..at + 4)
        .and_then(|field| field.try_into().ok());
    field
        .map(u32::from_be_bytes)
        .ok_or(HistogramError::Truncated)
}

fn be_u64(bytes: &[u8], at: usize) -> Result<u64, HistogramError> {
    let field = bytes
        .get(at..at + 8)
        .and_then(|field| field.try_into().ok());
    field
        .map(u64::from_be_bytes)
        .ok_or(HistogramError::Truncated)
}

/// Reads a LEB128 number of at most nine bytes; the ninth carries eight bits.
fn varint(bytes: &mut &[u8]) -> Result<u64, HistogramError> {
    let mut value = 0_u64;
    for position in 0..9 {
        let (first, rest) = bytes.split_first().ok_or(HistogramError::Truncated)?;
        *bytes = rest;
        if position == 8 {
            return Ok(value | u64::from(*first) << 56);
        }
        value |= u64::from(first & 0x7f) << (7 * position);
        if first & 0x80 == 0 {
            break;
        }
    }
    Ok(value)
}

fn zig_zag(encoded: u64) -> i64 {
    (encoded >> 1) as i64 ^ -((encoded & 1) as i64)
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
        use hdrhistogram::serialization::Deserializer;
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
            HistogramError::Cookie(0x6162_6364)
        ));
        assert!(matches!(
            Histogram::from_base64("***"),
            Err(HistogramError::Base64(_))
        ));
        let good = STANDARD.decode(EXTERNAL).unwrap();
        assert!(Histogram::from_base64(&to_base64(&good[..good.len() - 9])).is_err());
    }

    fn plain(payload: &[u8], digits: u32, lowest: u64) -> String {
        let mut bytes = V2_COOKIE.to_be_bytes().to_vec();
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
