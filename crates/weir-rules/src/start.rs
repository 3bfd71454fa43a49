//! Decides about Produce requests from their start, so that the proxy need not hold the records.

use weir_identity::acl::{AclOperation, ResourceType};
use weir_wire::WireError;
use weir_wire::cluster::TopicId;
use weir_wire::message;
use weir_wire::reader::WireReader;

use super::frames::Access;
use super::rules::PRODUCE;

/// First version that names topics by id.
const IDS_FROM: i16 = 13;
/// First version with a transactional id.
const TRANSACTIONS_FROM: i16 = 3;

/// The topics of a request, as far as its start shows them.
enum StartTopics<'a> {
    Name(&'a str),
    Id(TopicId),
    /// Several, or none: only the whole request shows all of them.
    Other,
}

impl Access<'_> {
    /// Returns `true` if the start of a body is enough to allow the request. Otherwise the whole
    /// request decides, see [`Self::check`].
    ///
    /// # Errors
    /// [`WireError::Truncated`] if more of the body is needed.
    pub fn allows_start(
        &mut self,
        (key, version): (i16, i16),
        start: &[u8],
    ) -> Result<bool, WireError> {
        let api = message::api(key).filter(|api| api.versions.contains(&version));
        let Some(api) = api.filter(|_| key == PRODUCE) else {
            return Ok(false);
        };
        let read = read_start(start, version, api.is_flexible(version));
        let (transaction, topics) = match read {
            Ok(read) => read,
            Err(error @ WireError::Truncated { .. }) => return Err(error),
            // The whole request has the same error.
            Err(_) => return Ok(false),
        };
        let kind = ResourceType::TransactionalId;
        if transaction.is_some_and(|name| !self.session.allows(AclOperation::Write, kind, name)) {
            return Ok(false);
        }
        let session = &mut *self.session;
        let topic = ResourceType::Topic;
        let is_allowed = match topics {
            _ if session.writes_all_topics => true,
            StartTopics::Name(name) => session.allows(AclOperation::Write, topic, name),
            StartTopics::Id(id) => {
                let name = self.names.name(id);
                name.is_some_and(|name| session.allows(AclOperation::Write, topic, &name))
            }
            StartTopics::Other => false,
        };
        if is_allowed {
            self.session.rules.counts.add(key, false);
        }
        Ok(is_allowed)
    }
}

/// Reads the transactional id and the topics.
fn read_start(
    start: &[u8],
    version: i16,
    is_flexible: bool,
) -> Result<(Option<&str>, StartTopics<'_>), WireError> {
    let mut reader = WireReader::new(start);
    let what = "transactional id";
    let transaction = match version {
        ..TRANSACTIONS_FROM => None,
        _ if is_flexible => reader.compact_nullable_string(what)?,
        _ => reader.nullable_string(what)?,
    };
    reader.i16("acks")?;
    reader.i32("timeout")?;
    let topics = match is_flexible {
        // The count plus one; 0 is null.
        true => i64::from(reader.uvarint("topics")?) - 1,
        false => i64::from(reader.i32("topics")?),
    };
    let topics = match (topics, version) {
        (1, IDS_FROM..) => {
            let id = reader.bytes(size_of::<TopicId>(), "topic id")?;
            let id = id.first_chunk().copied();
            id.map_or(StartTopics::Other, |id| {
                StartTopics::Id(TopicId::from_be_bytes(id))
            })
        }
        (1, _) if is_flexible => StartTopics::Name(reader.compact_string("topic")?),
        (1, _) => StartTopics::Name(reader.string("topic")?),
        _ => StartTopics::Other,
    };
    Ok((transaction, topics))
}
