//! The classic group protocol: coordinator lookup, membership and committed offsets.
//!
//! Requests use the latest versions without flexible headers; Kafka 4 supports them.

pub(crate) mod membership;
pub(crate) mod offsets;
pub(crate) mod subscription;

use kafka_protocol::messages::{FindCoordinatorRequest, GroupId};
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::reader::WireReader;

/// The coordinator is loading offsets or being elected; retry.
pub(crate) const COORDINATOR_LOADING: i16 = 14;
/// The group has no coordinator yet; retry.
pub(crate) const COORDINATOR_NOT_AVAILABLE: i16 = 15;
pub(crate) const NOT_COORDINATOR: i16 = 16;
/// The generation has ended.
pub(crate) const ILLEGAL_GENERATION: i16 = 22;
pub(crate) const UNKNOWN_MEMBER: i16 = 25;
/// The group rebalances; members must join again.
pub(crate) const REBALANCE_IN_PROGRESS: i16 = 27;
/// A new member must join again with the member id of the response.
pub(crate) const MEMBER_ID_REQUIRED: i16 = 79;

const FIND_COORDINATOR_VERSION: i16 = 2;

/// Version and body of a request.
pub(crate) type Call<R> = (i16, R);

/// Group member that sends a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberIdentity<'a> {
    pub(crate) group: &'a str,
    /// Member id; empty before the first join.
    pub(crate) member: &'a str,
    /// Generation of the last join.
    pub(crate) generation: i32,
}

impl MemberIdentity<'_> {
    fn group_id(&self) -> GroupId {
        GroupId(text(self.group))
    }
}

/// Address of a group coordinator; invalid if there is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupCoordinator {
    pub(crate) error: i16,
    pub(crate) host: String,
    pub(crate) port: u16,
}

pub(crate) fn find_coordinator(group: &str) -> Call<FindCoordinatorRequest> {
    let body = FindCoordinatorRequest::default().with_key(text(group));
    (FIND_COORDINATOR_VERSION, body)
}

pub(crate) fn read_find_coordinator(body: &[u8]) -> Result<GroupCoordinator, WireError> {
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
