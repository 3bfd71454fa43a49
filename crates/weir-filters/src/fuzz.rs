//! The functions behind the fuzz targets. Property tests run them, too. Not part of the API.

use std::time::Duration;

use crate::FilterConfig;
use crate::{FilterBuffers, FilterChain, FilterLimits, FrameOutput};

/// Sends a produce request through all filters. The first byte selects the version.
pub fn produce(data: &[u8]) {
    let Some((version, body)) = data.split_first() else {
        return;
    };
    let version = i16::from(version % 14);
    let (filters, mut buffers) = (all_filters(), FilterBuffers::new(LIMITS));
    let mut frame = framed(body);
    let Ok(result) = filters.produce(&mut frame, BODY_AT, version, &mut buffers) else {
        return;
    };
    check_size(&frame, result.output, &buffers);
    let Some(rejected) = result.rejected else {
        return;
    };
    // Any response with the same partitions will do, so the proxy's own is used.
    let response = rejected.response(version);
    let merged = rejected.merge(version, &response);
    assert!(merged.is_ok(), "{merged:?}");
    let _ = rejected.merge(version, body);
}

/// Sends a fetch response through all filters. The first byte selects the version.
pub fn fetch(data: &[u8]) {
    let Some((version, body)) = data.split_first() else {
        return;
    };
    let version = i16::from(version % 19);
    let (filters, mut buffers) = (all_filters(), FilterBuffers::new(LIMITS));
    let mut frame = framed(body);
    let Ok(result) = filters.fetch(&mut frame, BODY_AT, version, &mut buffers) else {
        return;
    };
    assert_eq!(result.rejected, None);
    check_size(&frame, result.output, &buffers);
    // Filtering the output again must not withhold a partition.
    let mut again = match result.output {
        FrameOutput::Rebuilt => buffers.frame().to_vec(),
        FrameOutput::InPlace | FrameOutput::Nothing => frame,
    };
    let mut buffers = FilterBuffers::new(LIMITS);
    let second = filters.fetch(&mut again, BODY_AT, version, &mut buffers);
    assert!(second.is_ok(), "{second:?}");
    assert_eq!(buffers.take_counts().partitions_withheld, 0);
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as i32).to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

fn check_size(frame: &[u8], output: FrameOutput, buffers: &FilterBuffers) {
    let sent = match output {
        FrameOutput::InPlace => frame,
        FrameOutput::Rebuilt => buffers.frame(),
        FrameOutput::Nothing => return,
    };
    let size = sent
        .first_chunk::<BODY_AT>()
        .map(|size| i32::from_be_bytes(*size));
    assert_eq!(size.map(|size| size as usize), Some(sent.len() - BODY_AT));
}

fn all_filters() -> FilterChain {
    #[derive(serde::Deserialize)]
    struct Raw {
        filter: Vec<FilterConfig>,
    }
    // Invariant: both are valid, which the tests check.
    let raw: Raw = toml::from_str(ALL).expect("configuration is valid");
    FilterChain::new(&raw.filter).expect("filters are valid")
}

const BODY_AT: usize = 4;
const LIMITS: FilterLimits = FilterLimits {
    batch_bytes: 1 << 20,
    frame_bytes: 4 << 20,
    frame_records: 100_000,
    frame_cpu: Duration::from_secs(1),
};
const ALL: &str = r#"
[[filter]]
type = "lower-case"
on = ["produce", "fetch"]
[[filter]]
type = "set-header"
on = ["produce", "fetch"]
name = "by"
value = "proxy"
[[filter]]
type = "remove-header"
on = ["produce", "fetch"]
name = "secret"
[[filter]]
type = "mask"
on = ["produce", "fetch"]
members = ["a.b", "*.c"]
[[filter]]
type = "upper-case"
topics = ["up*"]
on = ["produce", "fetch"]
[[filter]]
type = "require"
topics = ["strict*"]
json = true
value_bytes_max = 100
headers = ["h"]
"#;
