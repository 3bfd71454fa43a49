//! Bodies of the fuzz targets; the property tests run them too. Not for users.

use std::time::Duration;

use super::{FilterBuffers, FilterChain, FilterLimits, FrameOutput};
use crate::filter::FilterConfig;

/// A produce request through a chain of every filter: the first byte says which version.
pub fn produce(data: &[u8]) {
    let Some((version, body)) = data.split_first() else {
        return;
    };
    let version = i16::from(version % 13);
    let (filters, mut workspace) = (all_filters(), FilterBuffers::new(LIMITS));
    let mut frame = framed(body);
    let Ok(verdict) = filters.produce(&mut frame, BODY_AT, version, &mut workspace) else {
        return;
    };
    check_size(&frame, verdict.pass, &workspace);
    let Some(rejected) = verdict.rejected else {
        return;
    };
    // A broker's answer to anything: ours is as good as any.
    let answer = rejected.answer(version);
    let merged = rejected.merge(version, &answer);
    assert!(merged.is_ok(), "{merged:?}");
    let _ = rejected.merge(version, body);
}

/// An answer to Fetch through a chain of every filter: the first byte says which version.
pub fn fetch(data: &[u8]) {
    let Some((version, body)) = data.split_first() else {
        return;
    };
    let version = i16::from(version % 13);
    let (filters, mut workspace) = (all_filters(), FilterBuffers::new(LIMITS));
    let mut frame = framed(body);
    let Ok(verdict) = filters.fetch(&mut frame, BODY_AT, version, &mut workspace) else {
        return;
    };
    assert_eq!(verdict.rejected, None);
    check_size(&frame, verdict.pass, &workspace);
    // What has been through the filters goes through them again without being withheld.
    let mut again = match verdict.pass {
        FrameOutput::Rebuilt => workspace.frame().to_vec(),
        FrameOutput::InPlace | FrameOutput::Nothing => frame,
    };
    let mut workspace = FilterBuffers::new(LIMITS);
    let second = filters.fetch(&mut again, BODY_AT, version, &mut workspace);
    assert!(second.is_ok(), "{second:?}");
    assert_eq!(workspace.take_tally().partitions_withheld, 0);
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as i32).to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

fn check_size(frame: &[u8], pass: FrameOutput, workspace: &FilterBuffers) {
    let sent = match pass {
        FrameOutput::InPlace => frame,
        FrameOutput::Rebuilt => workspace.frame(),
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
    // Invariant: both are right, which the tests show.
    let raw: Raw = toml::from_str(ALL).expect("settings are valid");
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
