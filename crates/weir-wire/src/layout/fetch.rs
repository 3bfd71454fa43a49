//! Layout of Fetch responses, versions 0 to 18.

use super::{LayoutCursor, MessageLayout, PartitionSpan, fetch_is_flexible};
use crate::WireError;

/// Finds topics and partitions in the body of a response.
pub fn fetch(body: &[u8], version: i16, layout: &mut MessageLayout) -> Result<(), WireError> {
    let mut cursor = LayoutCursor::new(body, version, fetch_is_flexible(version));
    if version >= 1 {
        cursor.skip(4, "throttle time")?;
    }
    if version >= 7 {
        cursor.skip(2 + 4, "error code and session id")?;
    }
    layout.read_topics(&mut cursor, 14, |cursor| partition(cursor, version))?;
    cursor.end()
}

fn partition(cursor: &mut LayoutCursor<'_>, version: i16) -> Result<PartitionSpan, WireError> {
    let start = cursor.at();
    let index = cursor.reader.i32("partition")?;
    let error_at = cursor.at();
    cursor.skip(2 + 8, "error code and high watermark")?;
    if version >= 4 {
        cursor.skip(8, "last stable offset")?;
    }
    if version >= 5 {
        cursor.skip(8, "log start offset")?;
    }
    if version >= 4 {
        let (aborted, _) = cursor.count(16, "aborted transactions")?;
        for _ in 0..aborted {
            cursor.skip(16, "aborted transaction")?;
            cursor.tags()?;
        }
    }
    if version >= 11 {
        cursor.skip(4, "preferred read replica")?;
    }
    let (length, records) = cursor.sized("records")?;
    cursor.tags()?;
    Ok(PartitionSpan {
        whole: start..cursor.at(),
        index,
        error_at,
        length,
        records,
    })
}
