//! Layout of Produce requests, versions 0 to 12.

use super::{LayoutCursor, MessageLayout, PartitionSpan, TopicSpan, produce_is_flexible};
use crate::wire::WireError;

/// Finds topics and partitions in the body of a request.
///
/// # Errors
/// [`WireError`] if the bytes are not such a body.
pub fn produce(body: &[u8], version: i16, layout: &mut MessageLayout) -> Result<(), WireError> {
    layout.clear();
    let mut cursor = LayoutCursor::new(body, produce_is_flexible(version));
    if version >= 3 {
        cursor.skip_string("transactional id")?;
    }
    layout.acks = cursor.reader.i16("acks")?;
    cursor.skip(4, "timeout")?;
    let (topics, count_field) = cursor.count(2, "topics")?;
    layout.check_rows(topics, "topics")?;
    layout.topic_count = count_field;
    for _ in 0..topics {
        topic(&mut cursor, layout)?;
    }
    layout.topics_end = cursor.at();
    cursor.tags()?;
    cursor.end()
}

fn topic(cursor: &mut LayoutCursor<'_>, layout: &mut MessageLayout) -> Result<(), WireError> {
    let start = cursor.at();
    let name = cursor.name("topic name")?;
    let (partitions, partition_count) = cursor.count(5, "partitions")?;
    layout.check_rows(partitions, "partitions")?;
    let first = layout.partitions.len();
    for _ in 0..partitions {
        let start = cursor.at();
        let index = cursor.reader.i32("partition")?;
        let (length, records) = cursor.sized("records")?;
        cursor.tags()?;
        layout.partitions.push(PartitionSpan {
            whole: start..cursor.at(),
            index,
            error_at: 0,
            length,
            records,
        });
    }
    let partitions_end = cursor.at();
    cursor.tags()?;
    layout.topics.push(TopicSpan {
        whole: start..cursor.at(),
        name,
        partition_count,
        partitions: first..layout.partitions.len(),
        partitions_end,
    });
    Ok(())
}
