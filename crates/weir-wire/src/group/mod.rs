//! The classic group protocol: coordinator lookup, membership and committed offsets.
//!
//! Requests use the latest versions without flexible headers; Kafka 4 supports them.

pub mod membership;
pub mod offsets;
pub mod subscription;

use kafka_protocol::messages::{FindCoordinatorRequest, GroupId};
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::reader::WireReader;

/// The coordinator is loading offsets or being elected; retry.
pub const COORDINATOR_LOADING: i16 = 14;
/// The group has no coordinator yet; retry.
pub const COORDINATOR_NOT_AVAILABLE: i16 = 15;
/// Another broker is the coordinator; find it again.
pub const NOT_COORDINATOR: i16 = 16;
/// The generation has ended.
pub const ILLEGAL_GENERATION: i16 = 22;
/// The coordinator has removed the member.
pub const UNKNOWN_MEMBER: i16 = 25;
/// The group rebalances; members must join again.
pub const REBALANCE_IN_PROGRESS: i16 = 27;
/// A new member must join again with the member id of the response.
pub const MEMBER_ID_REQUIRED: i16 = 79;

const FIND_COORDINATOR_VERSION: i16 = 2;

/// Version and body of a request.
pub type VersionedRequest<R> = (i16, R);

/// Group member that sends a request.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct MemberIdentity<'a> {
    pub group: &'a str,
    /// Member id; empty before the first join.
    pub member: &'a str,
    /// Generation of the last join.
    pub generation: i32,
}

impl MemberIdentity<'_> {
    fn group_id(&self) -> GroupId {
        GroupId(text(self.group))
    }
}

/// Address of a group coordinator; invalid if there is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // other fields are named as in the protocol
pub struct GroupCoordinator {
    pub error: i16,
    pub host: String,
    pub port: u16,
}

/// Returns a request for the address of a group's coordinator.
pub fn find_coordinator(group: &str) -> VersionedRequest<FindCoordinatorRequest> {
    let body = FindCoordinatorRequest::default().with_key(text(group));
    (FIND_COORDINATOR_VERSION, body)
}

/// Reads the body of a coordinator response.
pub fn read_find_coordinator(body: &[u8]) -> Result<GroupCoordinator, WireError> {
    let mut reader = WireReader::new(body);
    reader.i32("throttle time")?;
    let error = reader.i16("error")?;
    reader.nullable_string("error message")?;
    reader.i32("node id")?;
    let host = reader.string("host")?.to_owned();
    let port = reader.i32("port")?;
    // Without a coordinator the port is -1.
    let port = u16::try_from(port).unwrap_or(0);
    Ok(GroupCoordinator { error, host, port })
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::{BrokerId, FindCoordinatorResponse};
    use kafka_protocol::protocol::Encodable;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn encoded_coordinator_round_trips(
            error in any::<i16>(), host in "[a-z.]{0,20}", port in -1_i32..70_000,
            noise in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let response = FindCoordinatorResponse::default()
                .with_error_code(error)
                .with_error_message(None)
                .with_node_id(BrokerId(3))
                .with_host(text(&host))
                .with_port(port);
            let mut bytes = BytesMut::new();
            response.encode(&mut bytes, FIND_COORDINATOR_VERSION).expect("encodes");
            let found = read_find_coordinator(&bytes)?;
            let port = u16::try_from(port).unwrap_or(0);
            prop_assert_eq!(found, GroupCoordinator { error, host, port });
            let _ = read_find_coordinator(&noise);
        }
    }
}
