//! The classic group protocol: coordinator lookup, membership and committed offsets.
//!
//! Requests use the latest versions without flexible headers; Kafka 4 supports them.

pub mod membership;
pub mod offsets;
pub mod subscription;

use bytes::BytesMut;
use kafka_protocol::messages::{ApiKey, FindCoordinatorRequest};
use kafka_protocol::protocol::StrBytes;

use super::header::write_request;
use super::reader::WireReader;
use super::{EncodeError, WireError};

/// The coordinator is loading offsets or being elected; retry.
pub const COORDINATOR_LOADING: i16 = 14;
/// The group has no coordinator yet; retry.
pub const COORDINATOR_NOT_AVAILABLE: i16 = 15;
/// Another broker is the group coordinator.
pub const NOT_COORDINATOR: i16 = 16;
/// The generation has ended.
pub const ILLEGAL_GENERATION: i16 = 22;
/// The coordinator does not know the member id.
pub const UNKNOWN_MEMBER: i16 = 25;
/// The group rebalances; members must join again.
pub const REBALANCE_IN_PROGRESS: i16 = 27;
/// A new member must join again with the member id of the response.
pub const MEMBER_ID_REQUIRED: i16 = 79;

const FIND_COORDINATOR_VERSION: i16 = 2;

/// Group member that sends a request.
#[derive(Debug, Clone, Copy)]
pub struct MemberIdentity<'a> {
    /// Name shown in broker logs.
    pub client_id: &'a str,
    /// Group id.
    pub group: &'a str,
    /// Member id; empty before the first join.
    pub member: &'a str,
    /// Generation of the last join.
    pub generation: i32,
}

/// Address of a group coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCoordinator {
    /// Kafka error code, 0 for none. With an error, the address is invalid.
    pub error: i16,
    /// Host of the coordinator.
    pub host: String,
    /// Port of the coordinator; 0 with an error.
    pub port: u16,
}

/// Appends a request for the coordinator of the caller's group.
pub fn write_find_coordinator(
    out: &mut BytesMut,
    correlation_id: i32,
    identity: MemberIdentity<'_>,
) -> Result<(), EncodeError> {
    let body = FindCoordinatorRequest::default().with_key(text(identity.group));
    let (api, version) = (ApiKey::FindCoordinator, FIND_COORDINATOR_VERSION);
    write_request(out, api, version, correlation_id, identity.client_id, &body)
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
