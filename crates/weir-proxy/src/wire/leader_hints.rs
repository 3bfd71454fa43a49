//! The tagged fields at the end of a Fetch response: the addresses of new leaders.
//!
//! When they arrive, the size of the response may have been forwarded already. The new fields then
//! take as many bytes as the old ones: a field that clients do not know fills the difference, or
//! replaces the addresses if these do not fit.

use weir_wire::WireError;
use weir_wire::layout::put_uvarint;
use weir_wire::reader::WireReader;

use super::addresses::AddressMapper;
use super::rewrite;

/// Permission to change the size of tagged fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resize {
    Allowed,
    Never,
}

/// Returns the tagged fields with the addresses that clients see, or `None` if they contain none.
pub(super) fn replace(
    tags: &[u8],
    mapper: &mut dyn AddressMapper,
    resize: Resize,
) -> Result<Option<Vec<u8>>, WireError> {
    let Some(made) = rewrite::replace_in_tags(tags, mapper)? else {
        return Ok(None);
    };
    if resize == Resize::Allowed {
        return Ok(Some(made));
    }
    match filled(made, tags.len()) {
        Some(made) => Ok(Some(made)),
        None => without_addresses(tags).map(Some),
    }
}

/// Adds a field that clients skip, so that the fields have `total` bytes. Returns `None` if that is
/// not possible.
fn filled(mut tags: Vec<u8>, total: usize) -> Option<Vec<u8>> {
    let missing = total.checked_sub(tags.len())?;
    if missing == 0 {
        return Some(tags);
    }
    // Counts below 128 take one byte.
    let count = tags.first_mut().filter(|count| **count < 127)?;
    *count += 1;
    tags.push(FILLER);
    // One byte for the tag, and as many for the size as the size itself requires.
    let size = (1..=3).find_map(|bytes| {
        let size = missing.checked_sub(1 + bytes)?;
        (uvarint_bytes(size) == bytes).then_some(size)
    })?;
    put_uvarint(&mut tags, u32::try_from(size).ok()?);
    tags.resize(total, 0);
    Some(tags)
}

fn uvarint_bytes(value: usize) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        _ => 3,
    }
}

/// Returns the fields with the addresses overwritten. Clients without a hint ask for the leader.
fn without_addresses(tags: &[u8]) -> Result<Vec<u8>, WireError> {
    let mut out = tags.to_vec();
    let mut reader = WireReader::new(tags);
    let at = |reader: &WireReader<'_>| tags.len() - reader.rest().len();
    for _ in 0..reader.uvarint("tags")? {
        let start = at(&reader);
        let tag = reader.uvarint("tag")?;
        let bytes = reader.uvarint("tag size")? as usize;
        reader.bytes(bytes, "tag")?;
        if tag == 0 {
            // All bits that are not the mark of a further byte.
            out[start] |= FILLER;
            let end = at(&reader);
            out[end - bytes..end].fill(0);
        }
    }
    Ok(out)
}

/// Tag of a field that no version has.
const FILLER: u8 = 127;
