//! JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
};

use super::subscription::{RANGE, write_subscription};
use super::{MemberIdentity, VersionedRequest, text};
use crate::WireError;
use crate::reader::WireReader;

const JOIN_VERSION: i16 = 5;
const SYNC_VERSION: i16 = 3;
const HEARTBEAT_VERSION: i16 = 3;
const LEAVE_VERSION: i16 = 2;

/// Response to a join request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct JoinResponse {
    pub error: i16,
    /// Generation that starts with the rebalance.
    pub generation: i32,
    /// Member id of the caller, or the id to join with.
    pub member_id: String,
    /// Member id of the leader, which assigns the partitions.
    pub leader_id: String,
    /// Member ids and encoded subscriptions; empty unless the caller is the leader.
    pub members: Vec<(String, Vec<u8>)>,
}

/// Returns a join request with the range assignor and a subscription to one topic. The coordinator
/// removes a member after the session timeout without a heartbeat, or if it does not join within
/// the rebalance timeout.
pub fn join(
    identity: MemberIdentity<'_>,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    topic: &str,
) -> VersionedRequest<JoinGroupRequest> {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text(RANGE))
        .with_metadata(Bytes::from(write_subscription(topic)));
    let body = JoinGroupRequest::default()
        .with_group_id(identity.group_id())
        .with_member_id(text(identity.member))
        .with_session_timeout_ms(session_timeout_ms)
        .with_rebalance_timeout_ms(rebalance_timeout_ms)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    (JOIN_VERSION, body)
}

/// Reads the body of a join response.
pub fn read_join(body: &[u8]) -> Result<JoinResponse, WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    let error = reader.i16("error")?;
    let generation = reader.i32("generation")?;
    reader.nullable_string("protocol")?;
    let leader_id = reader.string("leader")?.to_owned();
    let member_id = reader.string("member id")?.to_owned();
    let mut members = Vec::new();
    for _ in 0..reader.count(8, "members")? {
        let id = reader.string("member id")?.to_owned();
        reader.nullable_string("instance id")?;
        let subscription = reader.nullable_bytes("subscription")?;
        members.push((id, subscription.unwrap_or_default().to_vec()));
    }
    Ok(JoinResponse {
        error,
        generation,
        member_id,
        leader_id,
        members,
    })
}

/// Returns a sync request. The leader sends all assignments, other members send none.
pub fn sync(
    identity: MemberIdentity<'_>,
    assignments: Vec<(String, Vec<u8>)>,
) -> VersionedRequest<SyncGroupRequest> {
    let encode = |(member, assignment): (String, Vec<u8>)| {
        SyncGroupRequestAssignment::default()
            .with_member_id(text(&member))
            .with_assignment(Bytes::from(assignment))
    };
    let body = SyncGroupRequest::default()
        .with_group_id(identity.group_id())
        .with_generation_id(identity.generation)
        .with_member_id(text(identity.member))
        .with_assignments(assignments.into_iter().map(encode).collect());
    (SYNC_VERSION, body)
}

/// Reads the body of a sync response. Returns the error code and the caller's assignment.
pub fn read_sync(body: &[u8]) -> Result<(i16, Vec<u8>), WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    let error = reader.i16("error")?;
    let assignment = reader.nullable_bytes("assignment")?;
    Ok((error, assignment.unwrap_or_default().to_vec()))
}

/// Returns a heartbeat request.
pub fn heartbeat(identity: MemberIdentity<'_>) -> VersionedRequest<HeartbeatRequest> {
    let body = HeartbeatRequest::default()
        .with_group_id(identity.group_id())
        .with_generation_id(identity.generation)
        .with_member_id(text(identity.member));
    (HEARTBEAT_VERSION, body)
}

/// Returns a request to leave the group.
pub fn leave(identity: MemberIdentity<'_>) -> VersionedRequest<LeaveGroupRequest> {
    let body = LeaveGroupRequest::default()
        .with_group_id(identity.group_id())
        .with_member_id(text(identity.member));
    (LEAVE_VERSION, body)
}

/// Reads the body of a heartbeat or leave response. Returns the error code.
pub fn read_code(body: &[u8]) -> Result<i16, WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    reader.i16("error")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::subscription::subscribes;
    use bytes::BytesMut;
    use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
    use kafka_protocol::messages::{
        HeartbeatResponse, JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse,
    };
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    const IDENTITY: MemberIdentity<'_> = MemberIdentity {
        group: "g1",
        member: "m1",
        generation: 7,
    };

    fn encoded(message: &impl Encodable, version: i16) -> BytesMut {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes, version).expect("encodes");
        bytes
    }

    proptest! {
        #[test]
        fn encoded_responses_round_trip(
            error in any::<i16>(), generation in any::<i32>(),
            members in prop::collection::vec(
                ("[a-z]{0,9}", prop::collection::vec(any::<u8>(), 0..9)), 0..5,
            ),
            assignment in prop::collection::vec(any::<u8>(), 0..20),
            noise in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let member = |(id, metadata): &(String, Vec<u8>)| {
                JoinGroupResponseMember::default()
                    .with_member_id(text(id))
                    .with_metadata(Bytes::from(metadata.clone()))
            };
            let join = JoinGroupResponse::default()
                .with_error_code(error)
                .with_generation_id(generation)
                .with_protocol_name(Some(text("range")))
                .with_leader(text("a"))
                .with_member_id(text("b"))
                .with_members(members.iter().map(member).collect());
            let (leader_id, member_id) = ("a".to_owned(), "b".to_owned());
            let expected = JoinResponse { error, generation, member_id, leader_id, members };
            prop_assert_eq!(read_join(&encoded(&join, JOIN_VERSION))?, expected);
            let sync = SyncGroupResponse::default()
                .with_error_code(error)
                .with_assignment(Bytes::from(assignment.clone()));
            prop_assert_eq!(read_sync(&encoded(&sync, SYNC_VERSION))?, (error, assignment));
            let heartbeat = HeartbeatResponse::default().with_error_code(error);
            prop_assert_eq!(read_code(&encoded(&heartbeat, HEARTBEAT_VERSION))?, error);
            let leave = LeaveGroupResponse::default().with_error_code(error);
            prop_assert_eq!(read_code(&encoded(&leave, LEAVE_VERSION))?, error);
            let _ = (read_join(&noise), read_sync(&noise), read_code(&noise));
        }
    }

    #[test]
    fn requests_contain_member_identity() {
        let (_, join) = join(IDENTITY, 6000, 9000, "t");
        encoded(&join, JOIN_VERSION);
        assert_eq!(join.group_id.0.as_str(), "g1");
        assert_eq!(
            (join.session_timeout_ms, join.rebalance_timeout_ms),
            (6000, 9000)
        );
        assert_eq!(join.protocols[0].name.as_str(), "range");
        assert_eq!(subscribes(&join.protocols[0].metadata, "t"), Ok(true));
        let (_, sync) = sync(IDENTITY, vec![("m1".to_owned(), vec![9])]);
        encoded(&sync, SYNC_VERSION);
        assert_eq!((sync.generation_id, sync.member_id.as_str()), (7, "m1"));
        assert_eq!(sync.assignments[0].assignment[..], [9]);
    }
}
