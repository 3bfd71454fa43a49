//! Cluster features in ApiVersions responses. A client that sees a finalized feature uses the API
//! versions that belong to it, so a feature is lowered if its versions are not supported.

use weir_wire::WireError;
use weir_wire::layout::{put_length, put_string, put_uvarint};
use weir_wire::reader::WireReader;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Api {
    pub(super) key: i16,
    pub(super) min: i16,
    pub(super) max: i16,
}

/// Tags of the lists of supported and of finalized features.
const SUPPORTED: u32 = 0;
const FINALIZED: u32 = 2;

/// Name of a feature, a level, and the API versions that the level needs.
type Need = (&'static str, i16, &'static [(i16, i16)]);

/// The API versions that feature levels need. If one is not supported, the level below is the
/// maximum; features at level 0 are removed.
const NEEDS: [Need; 4] = [
    // Transactions that add partitions with Produce and increment the epoch at their end.
    ("transaction.version", 2, &[(0, 12), (26, 5), (28, 5)]),
    ("share.version", 1, &[(78, 1)]),
    ("group.version", 1, &[(68, 0)]),
    ("streams.version", 1, &[(88, 0)]),
];

/// Copies the tagged fields at the end of the response, with features lowered to the API versions
/// in `apis`.
pub(super) fn keep_consistent(
    reader: &mut WireReader<'_>,
    apis: &[Api],
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let count = reader.uvarint("tags")?;
    put_uvarint(out, count);
    for _ in 0..count {
        let tag = reader.uvarint("tag")?;
        let bytes = reader.uvarint("tag size")?;
        let content = reader.bytes(bytes as usize, "tag")?;
        put_uvarint(out, tag);
        let lowered = match tag {
            SUPPORTED => Some(lower(content, apis, [1, 0])?),
            FINALIZED => Some(lower(content, apis, [0, 1])?),
            _ => None,
        };
        let content = lowered.as_deref().unwrap_or(content);
        put_uvarint(out, content.len() as u32);
        out.extend_from_slice(content);
    }
    Ok(())
}

/// Lowers a list of features. `max` and `min` are the indexes of the two levels in an entry.
fn lower(content: &[u8], apis: &[Api], [max, min]: [usize; 2]) -> Result<Vec<u8>, WireError> {
    let mut reader = WireReader::new(content);
    let count = reader.compact_count(6, "features")?;
    let mut lowered_features = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let name = reader.compact_string("feature")?;
        let mut levels = [reader.i16("level")?, reader.i16("level")?];
        let before = reader.rest();
        reader.skip_tags("feature tags")?;
        let tags = &before[..before.len() - reader.rest().len()];
        let highest = highest(name, apis);
        if highest < 1 {
            continue;
        }
        levels[max] = levels[max].min(highest);
        levels[min] = levels[min].min(levels[max]);
        lowered_features.push((name, levels, tags));
    }
    let mut out = Vec::with_capacity(content.len());
    put_length(&mut out, true, lowered_features.len());
    for (name, levels, tags) in lowered_features {
        put_string(&mut out, true, name);
        for level in levels {
            out.extend_from_slice(&level.to_be_bytes());
        }
        out.extend_from_slice(tags);
    }
    out.extend_from_slice(reader.rest());
    Ok(out)
}

fn highest(name: &str, apis: &[Api]) -> i16 {
    let is_supported = |(key, version): &(i16, i16)| {
        let api = apis.iter().find(|api| api.key == *key);
        api.is_some_and(|api| api.max >= *version)
    };
    let need = NEEDS.iter().find(|need| need.0 == name);
    match need {
        Some((_, level, needed)) if !needed.iter().all(is_supported) => level - 1,
        _ => i16::MAX,
    }
}
