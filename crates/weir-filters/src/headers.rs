//! Record headers in wire format: a count, then name and value of each.

use weir_wire::reader::WireReader;
use weir_wire::records::{put_varint, put_varint_bytes};

use crate::rejection::RecordRejection;

/// Error for headers that cannot be decoded. The record is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<Malformed> for RecordRejection {
    fn from(_: Malformed) -> Self {
        Self("headers cannot be decoded".into())
    }
}

/// Name and value of a header; the value may be null.
type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// Calls `visit` for each header. All bytes must belong to headers.
fn each<'a>(bytes: &'a [u8], mut visit: impl FnMut(Header<'a>)) -> Result<(), Malformed> {
    let mut reader = WireReader::new(bytes);
    let count = reader.varint("header count").map_err(|_| Malformed)?;
    if count < 0 {
        return Err(Malformed);
    }
    for _ in 0..count {
        let name = reader.varint_bytes("header name").map_err(|_| Malformed)?;
        let value = reader.varint_bytes("header value").map_err(|_| Malformed)?;
        visit((name.ok_or(Malformed)?, value));
    }
    match reader.rest() {
        [] => Ok(()),
        _ => Err(Malformed),
    }
}

/// Returns `true` if there is a header named `name`.
pub(crate) fn has(bytes: &[u8], name: &str) -> Result<bool, Malformed> {
    let mut found = false;
    each(bytes, |(other, _)| found |= other == name.as_bytes())?;
    Ok(found)
}

/// Appends all headers except those named `name`. Returns `true` if there were any.
pub(crate) fn without(bytes: &[u8], name: &str, out: &mut Vec<u8>) -> Result<bool, Malformed> {
    let others = count(bytes, |(other, _)| other != name.as_bytes())?;
    let all = count(bytes, |_| true)?;
    put_varint(out, others);
    copy_others(bytes, name, out)?;
    Ok(others < all)
}

/// Appends all other headers and then one named `name`. Returns `true` if that changed the headers.
pub(crate) fn with(
    bytes: &[u8],
    name: &str,
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, Malformed> {
    let others = count(bytes, |(other, _)| other != name.as_bytes())?;
    put_varint(out, others + 1);
    copy_others(bytes, name, out)?;
    put_varint_bytes(out, Some(name.as_bytes()));
    put_varint_bytes(out, Some(value));
    Ok(out != bytes)
}

fn count(bytes: &[u8], mut is_counted: impl FnMut(Header<'_>) -> bool) -> Result<i64, Malformed> {
    let mut found = 0;
    each(bytes, |header| found += i64::from(is_counted(header)))?;
    Ok(found)
}

fn copy_others(bytes: &[u8], name: &str, out: &mut Vec<u8>) -> Result<(), Malformed> {
    each(bytes, |(other, value)| {
        if other != name.as_bytes() {
            put_varint_bytes(out, Some(other));
            put_varint_bytes(out, value);
        }
    })
}
