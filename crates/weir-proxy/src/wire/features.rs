//! Features of the cluster in the answer to ApiVersions: a client that reads one as given uses
//! versions that go with it, so it must not be told of one whose versions it is not offered.

use weir_kafka::wire::WireError;
use weir_kafka::wire::reader::WireReader;

use super::addresses::put_uvarint;
use super::api_versions::Api;

/// Tags of the lists of supported and of finalized features.
const SUPPORTED: u32 = 0;
const FINALIZED: u32 = 2;

/// Name of a feature, a level of it, and the APIs with versions that it needs.
type Need = (&'static str, i16, &'static [(i16, i16)]);

/// What levels of features need. Below that level the feature
/// stays, at level 0 it goes.
const NEEDS: [Need; 4] = [
    // Transactions that add partitions with Produce and end with an epoch of their own.
    ("transaction.version", 2, &[(0, 12), (26, 5), (28, 5)]),
    ("share.version", 1, &[(78, 1)]),
    ("group.version", 1, &[(68, 0)]),
    ("streams.version", 1, &[(88, 0)]),
];

/// Appends the tagged fields with which the answer ends, features lowered to what `apis` allow.
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

/// A list of features; `[max, min]` tell which of the two numbers is which.
fn lower(content: &[u8], apis: &[Api], [max, min]: [usize; 2]) -> Result<Vec<u8>, WireError> {
    let mut reader = WireReader::new(content);
    let count = reader.compact_count(6, "features")?;
    let mut kept = Vec::with_capacity(count.min(64));
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
        kept.push((name, levels, tags));
    }
    let mut out = Vec::with_capacity(content.len());
    put_uvarint(&mut out, kept.len() as u32 + 1);
    for (name, levels, tags) in kept {
        put_uvarint(&mut out, name.len() as u32 + 1);
        out.extend_from_slice(name.as_bytes());
        levels
            .iter()
            .for_each(|level| out.extend_from_slice(&level.to_be_bytes()));
        out.extend_from_slice(tags);
    }
    out.extend_from_slice(reader.rest());
    Ok(out)
}

fn highest(name: &str, apis: &[Api]) -> i16 {
    let offered = |(key, version): &(i16, i16)| {
        let api = apis.iter().find(|api| api.key == *key);
        api.is_some_and(|api| api.max >= *version)
    };
    let need = NEEDS.iter().find(|need| need.0 == name);
    match need {
        Some((_, level, needed)) if !needed.iter().all(offered) => level - 1,
        _ => i16::MAX,
    }
}
