//! The classic group protocol: finding the coordinator, joining, heartbeats, committed offsets.
//!
//! Requests in the newest versions that still have fixed-length headers; Kafka 4 serves them.

pub mod membership;
pub mod offsets;
pub mod subscription;

use bytes::BytesMut;
use kafka_protocol::messages::{ApiKey, FindCoordinatorRequest};
use kafka_protocol::protocol::StrBytes;

use super::header::write_request;
use super::reader::WireReader;
use super::{EncodeError, WireError};

/// The offset load or the election of a coordinator is not finished: ask again.
pub const COORDINATOR_LOADING: i16 = 14;
/// No coordinator yet: ask again.
pub const COORDINATOR_NOT_AVAILABLE: i16 = 15;
/// Another broker coordinates the group now.
pub const NOT_COORDINATOR: i16 = 16;
/// The generation is over.
pub const ILLEGAL_GENERATION: i16 = 22;
/// The coordinator has removed the member.
pub const UNKNOWN_MEMBER: i16 = 25;
/// The members are to join again.
pub const REBALANCE_IN_PROGRESS: i16 = 27;
/// A new member is to join again under the name it was given.
pub const MEMBER_ID_REQUIRED: i16 = 79;

const FIND_COORDINATOR_VERSION: i16 = 2;

/// Who a request speaks for.
#[derive(Debug, Clone, Copy)]
pub struct MemberIdentity<'a> {
    /// Name shown in broker logs.
    pub client_id: &'a str,
    /// The group.
    pub group: &'a str,
    /// Member id, empty before the first join.
    pub member: &'a str,
    /// Generation joined last.
    pub generation: i32,
}

/// The broker that coordinates a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCoordinator {
    /// Kafka error code, 0 for none; without it nothing else counts.
    pub error: i16,
    /// Host it listens on.
    pub host: String,
    /// Port it listens on, 0 with an error.
    pub port: u16,
}

/// Appends a request for the coordinator of the caller's group.
pub fn write_find_coordinator(
    out: &mut BytesMut,
    correlation_id: i32,
    caller: MemberIdentity<'_>,
) -> Result<(), EncodeError> {
    let body = FindCoordinatorRequest::default().with_key(text(caller.group));
    let (api, version) = (ApiKey::FindCoordinator, FIND_COORDINATOR_VERSION);
    write_request(out, api, version, correlation_id, caller.client_id, &body)
}

/// Reads the answer's body.
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
        fn the_coordinator_reads_as_the_codec_writes_it(
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
