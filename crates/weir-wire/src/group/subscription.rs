//! Subscriptions and assignments of the consumer protocol.

use bytes::BufMut;

use super::super::WireError;
use super::super::reader::WireReader;

/// Name of the range assignor, which all members must support.
pub const RANGE: &str = "range";

/// Returns the subscription of a consumer to one topic.
pub fn write_subscription(topic: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + topic.len());
    out.put_i16(0);
    out.put_i32(1);
    put_text(&mut out, topic);
    out.put_i32(-1);
    out
}

/// Returns `true` if a subscription contains `topic`. Other client libraries may have written it.
pub fn subscribes(subscription: &[u8], topic: &str) -> Result<bool, WireError> {
    let mut reader = WireReader::new(subscription);
    reader.i16("version")?;
    let mut found = false;
    for _ in 0..reader.count(2, "topics")? {
        found |= reader.string("topic name")? == topic;
    }
    Ok(found)
}

/// Returns the assignment of partitions of one topic.
pub fn write_assignment(topic: &str, partitions: &[i32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(20 + topic.len() + 4 * partitions.len());
    out.put_i16(0);
    out.put_i32(i32::from(!partitions.is_empty()));
    if !partitions.is_empty() {
        put_text(&mut out, topic);
        // A frame cannot contain more partitions than this.
        out.put_i32(i32::try_from(partitions.len()).unwrap_or(i32::MAX));
        partitions.iter().for_each(|it| out.put_i32(*it));
    }
    out.put_i32(-1);
    out
}

/// Returns the partitions of `topic` in an assignment. The coordinator may send an empty
/// assignment.
pub fn read_assignment(assignment: &[u8], topic: &str) -> Result<Vec<i32>, WireError> {
    let mut reader = WireReader::new(assignment);
    let mut partitions = Vec::new();
    if assignment.is_empty() {
        return Ok(partitions);
    }
    reader.i16("version")?;
    for _ in 0..reader.count(6, "topics")? {
        let is_topic = reader.string("topic name")? == topic;
        for _ in 0..reader.count(4, "partitions")? {
            let partition = reader.i32("partition")?;
            if is_topic {
                partitions.push(partition);
            }
        }
    }
    Ok(partitions)
}

/// Assigns the partitions `0..count` to members in the order of their ids. Each member gets a
/// contiguous range; the first members get one partition more if the division leaves a remainder.
pub fn range_assign(count: usize, mut members: Vec<String>) -> Vec<(String, Vec<i32>)> {
    members.sort_unstable();
    let (each, more) = match members.len() {
        0 => (0, 0),
        n => (count / n, count % n),
    };
    let mut next = 0_i32;
    let assignments = members.into_iter().enumerate().map(|(index, member)| {
        let own = each + usize::from(index < more);
        // Partition numbers have 32 bits, so their count does too.
        let end = next + i32::try_from(own).unwrap_or(0);
        let assignment = (next..end).collect();
        next = end;
        (member, assignment)
    });
    assignments.collect()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // Topic names have at most 249 characters, which is checked at the start.
    out.put_i16(i16::try_from(text.len()).unwrap_or(0));
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
    use kafka_protocol::protocol::Decodable;
    use proptest::prelude::*;

    #[test]
    fn encodings_match_kafka_protocol() {
        let mut bytes = bytes::Bytes::from(write_subscription("LTest")).slice(2..);
        let read = ConsumerProtocolSubscription::decode(&mut bytes, 0).expect("a subscription");
        assert_eq!(read.topics[0].as_str(), "LTest");
        let mut bytes = bytes::Bytes::from(write_assignment("LTest", &[3, 4])).slice(2..);
        let read = ConsumerProtocolAssignment::decode(&mut bytes, 0).expect("an assignment");
        assert_eq!(read.assigned_partitions[0].partitions, [3, 4]);
        let subscription = write_subscription("LTest");
        assert_eq!(subscribes(&subscription, "LTest"), Ok(true));
        assert_eq!(subscribes(&subscription, "other"), Ok(false));
        assert_eq!(read_assignment(&[], "LTest"), Ok(vec![]));
        assert_eq!(
            read_assignment(&write_assignment("LTest", &[1]), "other"),
            Ok(vec![])
        );
    }

    proptest! {
        #[test]
        fn range_assign_is_complete_and_balanced(
            count in 0_usize..40, names in prop::collection::btree_set("[a-z]{1,4}", 1..9),
        ) {
            let members: Vec<_> = names.iter().rev().cloned().collect();
            let assignments = range_assign(count, members);
            let owners: Vec<_> = assignments.iter().map(|(member, _)| member.clone()).collect();
            prop_assert!(owners.iter().eq(names.iter()));
            let all: Vec<_> = assignments.iter().flat_map(|(_, it)| it.clone()).collect();
            prop_assert!(all.iter().copied().eq(0..count as i32));
            let sizes = || assignments.iter().map(|assignment| assignment.1.len());
            prop_assert!(sizes().max().unwrap_or(0) <= sizes().min().unwrap_or(0) + 1);
        }

        #[test]
        fn assignments_round_trip_and_noise_never_panics(
            partitions in prop::collection::vec(any::<i32>(), 0..9),
            noise in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            prop_assert_eq!(read_assignment(&write_assignment("t", &partitions), "t")?, partitions);
            let _ = (read_assignment(&noise, "t"), subscribes(&noise, "t"));
        }
    }
}
