//! Layout of Produce requests, versions 0 to 13.

use super::{LayoutCursor, MessageLayout, PartitionSpan, produce_is_flexible};
use crate::WireError;

/// Finds topics and partitions in the body of a request.
pub fn produce(body: &[u8], version: i16, layout: &mut MessageLayout) -> Result<(), WireError> {
    let mut cursor = LayoutCursor::new(body, version, produce_is_flexible(version));
    if version >= 3 {
        cursor.skip_string("transactional id")?;
    }
    let acks = cursor.reader.i16("acks")?;
    cursor.skip(4, "timeout")?;
    layout.read_topics(&mut cursor, 5, |cursor| {
        let start = cursor.at();
        let index = cursor.reader.i32("partition")?;
        let (length, records) = cursor.sized("records")?;
        cursor.tags()?;
        Ok(PartitionSpan {
            whole: start..cursor.at(),
            index,
            error_at: 0,
            length,
            records,
        })
    })?;
    layout.acks = acks;
    cursor.end()
}
