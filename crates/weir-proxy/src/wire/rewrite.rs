//! Replaces broker addresses in responses with addresses of the proxy.

use weir_wire::WireError;
use weir_wire::layout::{put_length, put_string, put_uvarint};
use weir_wire::reader::WireReader;

use super::SIZE_BYTES;
use super::addresses::{AddressMapper, BrokerEntryLayout, replace_list, resolve, string};
use super::headers::response_body_at;
use crate::config::HostPort;
use crate::versions::{
    DESCRIBE_CLUSTER, DESCRIBE_QUORUM, FIND_COORDINATOR, METADATA, PRODUCE, SHARE_ACKNOWLEDGE,
    SHARE_FETCH, flexible,
};

/// Returns `true` if responses of this API version may contain addresses, so that they must be
/// buffered whole. Fetch responses are handled without buffering, in `fetch_walk`.
pub(super) fn may_carry_addresses(key: i16, version: i16) -> bool {
    match key {
        PRODUCE => version >= 10,
        DESCRIBE_QUORUM => version >= 2,
        METADATA | FIND_COORDINATOR | DESCRIBE_CLUSTER | SHARE_FETCH | SHARE_ACKNOWLEDGE => true,
        _ => false,
    }
}

/// Returns the response frame with the addresses that clients see, or `None` if it contains no
/// addresses.
/// Both frames include the size prefix.
pub(crate) fn replace_addresses(
    frame: &[u8],
    key: i16,
    version: i16,
    mapper: &mut dyn AddressMapper,
) -> Result<Option<Vec<u8>>, WireError> {
    let body_at = response_body_at(frame, key, version)?;
    let mut response = ResponseRewriter {
        frame,
        reader: WireReader::new(&frame[body_at..]),
        copied: 0,
        out: Vec::new(),
        flexible: flexible(key, version),
    };
    match key {
        METADATA => response.metadata(version, mapper)?,
        FIND_COORDINATOR => response.find_coordinator(version, mapper)?,
        DESCRIBE_CLUSTER => response.describe_cluster(version, mapper)?,
        DESCRIBE_QUORUM => response.describe_quorum()?,
        PRODUCE => response.produce(version, mapper)?,
        SHARE_FETCH => response.share_response(version >= 1, true, mapper)?,
        SHARE_ACKNOWLEDGE => response.share_response(version >= 2, false, mapper)?,
        _ => {}
    }
    Ok(response.finish())
}

/// Returns tagged fields with the addresses that clients see in the field with tag 0 (node
/// endpoints), or `None` if there is no such field.
pub(super) fn replace_in_tags(
    tags: &[u8],
    mapper: &mut dyn AddressMapper,
) -> Result<Option<Vec<u8>>, WireError> {
    let mut fields = ResponseRewriter {
        frame: tags,
        reader: WireReader::new(tags),
        copied: 0,
        out: Vec::new(),
        flexible: true,
    };
    fields.tagged_endpoints(mapper)?;
    match i64::try_from(fields.reader.rest().len()) {
        Ok(0) => Ok(fields.output()),
        left => Err(WireError::Length {
            what: "bytes after the message",
            value: left.unwrap_or(i64::MAX),
        }),
    }
}

/// Writer of a response with replaced addresses. It copies the parts between the replacements.
struct ResponseRewriter<'a> {
    frame: &'a [u8],
    reader: WireReader<'a>,
    /// Position up to which the frame is copied or replaced.
    copied: usize,
    /// Empty if there was no replacement.
    out: Vec<u8>,
    /// `true` for a flexible version (KIP-482).
    flexible: bool,
}

/// Layout of a node endpoint: a broker with rack and tagged fields.
const ENDPOINT: BrokerEntryLayout = BrokerEntryLayout {
    flexible: true,
    rack: true,
    fenced: false,
};

impl ResponseRewriter<'_> {
    /// Returns the position of the reader in the frame.
    fn position(&self) -> usize {
        self.frame.len() - self.reader.rest().len()
    }

    /// Appends the frame up to `position`.
    fn copy_to(&mut self, position: usize) {
        if self.out.is_empty() {
            self.out.reserve(self.frame.len() + 64);
        }
        let part = &self.frame[self.copied..position];
        self.out.extend_from_slice(part);
        self.copied = position;
    }

    /// Returns the output with the rest of the frame, or `None` if there was no replacement.
    fn output(mut self) -> Option<Vec<u8>> {
        if self.out.is_empty() {
            return None;
        }
        self.out.extend_from_slice(&self.frame[self.copied..]);
        Some(self.out)
    }

    /// Returns the output like [`Self::output`], with a correct size prefix.
    fn finish(self) -> Option<Vec<u8>> {
        let mut out = self.output()?;
        // Frames are far below 2^31 bytes and grow by a few addresses only.
        let size = (out.len() - SIZE_BYTES) as i32;
        out[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
        Some(out)
    }

    /// Replaces the list of brokers at the reader's position.
    fn replace_brokers(
        &mut self,
        layout: BrokerEntryLayout,
        mapper: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.copy_to(self.position());
        replace_list(&mut self.reader, layout, mapper, &mut self.out)?;
        self.copied = self.position();
        Ok(())
    }

    fn skip_string(&mut self, what: &'static str) -> Result<(), WireError> {
        string(&mut self.reader, self.flexible, what).map(drop)
    }

    fn skip_nullable_string(&mut self, what: &'static str) -> Result<(), WireError> {
        match self.flexible {
            true => self.reader.compact_bytes(what).map(drop),
            false => self.reader.nullable_string(what).map(drop),
        }
    }

    fn count(&mut self, element_bytes_min: usize, what: &'static str) -> Result<usize, WireError> {
        match self.flexible {
            true => self.reader.compact_count(element_bytes_min, what),
            false => self.reader.count(element_bytes_min, what),
        }
    }

    fn metadata(&mut self, version: i16, mapper: &mut dyn AddressMapper) -> Result<(), WireError> {
        if version >= 3 {
            self.reader.i32("throttle time")?;
        }
        let layout = BrokerEntryLayout {
            flexible: self.flexible,
            rack: version >= 1,
            fenced: false,
        };
        self.replace_brokers(layout, mapper)
    }

    fn describe_cluster(
        &mut self,
        version: i16,
        mapper: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.reader.i32("throttle time")?;
        self.reader.i16("error code")?;
        self.skip_nullable_string("error message")?;
        let has_controllers = version >= 1 && self.reader.i8("endpoint type")? != BROKERS;
        self.skip_string("cluster id")?;
        self.reader.i32("controller id")?;
        let layout = BrokerEntryLayout {
            fenced: version >= 2,
            ..ENDPOINT
        };
        if has_controllers {
            // Clients of the proxy cannot reach controllers, and a controller may have the node id
            // of a broker.
            return self.replace_brokers(layout, &mut NoAddresses);
        }
        self.replace_brokers(layout, mapper)
    }

    fn find_coordinator(
        &mut self,
        version: i16,
        mapper: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        if version >= 1 {
            self.reader.i32("throttle time")?;
        }
        if version < 4 {
            let error_at = self.position();
            self.reader.i16("error code")?;
            if version >= 1 {
                self.skip_nullable_string("error message")?;
            }
            if !self.coordinator(mapper)? {
                // The error precedes the address, so its position is the same in both frames.
                put_unavailable(&mut self.out, error_at);
            }
            return Ok(());
        }
        for _ in 0..self.count(14, "coordinators")? {
            self.skip_string("key")?;
            let found = self.coordinator(mapper)?;
            let error_at = self.position();
            self.reader.i16("error code")?;
            if !found {
                self.copy_to(self.position());
                // The fields copied last begin with the error code.
                let at = self.out.len() - (self.position() - error_at);
                put_unavailable(&mut self.out, at);
            }
            self.skip_nullable_string("error message")?;
            self.reader.skip_tags("coordinator tags")?;
        }
        Ok(())
    }

    /// Replaces node id, host and port of a coordinator. Returns `false` if the coordinator has no
    /// advertised address.
    fn coordinator(&mut self, mapper: &mut dyn AddressMapper) -> Result<bool, WireError> {
        let start = self.position();
        let id = self.reader.i32("node id")?;
        let host = string(&mut self.reader, self.flexible, "host")?;
        let port = self.reader.i32("port")?;
        let address = resolve(mapper, id, host, port);
        if address.is_none() && host.is_empty() {
            // No coordinator was found, so no address must be replaced.
            return Ok(true);
        }
        self.copy_to(start);
        self.copied = self.position();
        let (id, host, port) = match &address {
            Some(address) => (id, &*address.host, i32::from(address.port)),
            None => (-1, "", -1),
        };
        self.out.extend_from_slice(&id.to_be_bytes());
        put_string(&mut self.out, self.flexible, host);
        self.out.extend_from_slice(&port.to_be_bytes());
        Ok(address.is_some())
    }

    fn produce(&mut self, version: i16, mapper: &mut dyn AddressMapper) -> Result<(), WireError> {
        for _ in 0..self.count(3, "topics")? {
            if version >= 13 {
                self.reader.bytes(16, "topic id")?;
            } else {
                self.skip_string("topic")?;
            }
            for _ in 0..self.count(33, "partitions")? {
                // Index, error code, base offset, timestamp, log start offset.
                self.reader.bytes(30, "partition")?;
                for _ in 0..self.count(6, "record errors")? {
                    self.reader.i32("batch index")?;
                    self.skip_nullable_string("record error")?;
                    self.reader.skip_tags("record error tags")?;
                }
                self.skip_nullable_string("error message")?;
                self.reader.skip_tags("partition tags")?;
            }
            self.reader.skip_tags("topic tags")?;
        }
        self.reader.i32("throttle time")?;
        self.tagged_endpoints(mapper)
    }

    /// Replaces the node endpoints, tag 0 of the tagged fields at the end of the response.
    fn tagged_endpoints(&mut self, mapper: &mut dyn AddressMapper) -> Result<(), WireError> {
        for _ in 0..self.reader.uvarint("tags")? {
            let tag = self.reader.uvarint("tag")?;
            let start = self.position();
            let bytes = self.reader.uvarint("tag size")?;
            let content = self.reader.bytes(bytes as usize, "tag")?;
            if tag != 0 {
                continue;
            }
            self.copy_to(start);
            self.copied = self.position();
            let mut endpoints = Vec::with_capacity(content.len() + 32);
            let mut list = WireReader::new(content);
            replace_list(&mut list, ENDPOINT, mapper, &mut endpoints)?;
            put_uvarint(&mut self.out, endpoints.len() as u32);
            self.out.extend_from_slice(&endpoints);
        }
        Ok(())
    }

    /// Removes the listeners of controllers, which clients of the proxy cannot reach. The ids of
    /// the nodes and all other fields stay.
    fn describe_quorum(&mut self) -> Result<(), WireError> {
        self.reader.i16("error code")?;
        self.skip_nullable_string("error message")?;
        for _ in 0..self.count(3, "topics")? {
            self.skip_string("topic")?;
            for _ in 0..self.count(26, "partitions")? {
                self.reader.bytes(4 + 2, "partition and error code")?;
                self.skip_nullable_string("error message")?;
                self.reader.bytes(4 + 4 + 8, "leader and high watermark")?;
                // Voters and observers.
                for _ in 0..2 {
                    for _ in 0..self.count(45, "replicas")? {
                        self.reader.bytes(4 + 16 + 3 * 8, "replica")?;
                        self.reader.skip_tags("replica tags")?;
                    }
                }
                self.reader.skip_tags("partition tags")?;
            }
            self.reader.skip_tags("topic tags")?;
        }
        for _ in 0..self.count(6, "nodes")? {
            self.reader.i32("node id")?;
            self.copy_to(self.position());
            for _ in 0..self.count(5, "listeners")? {
                self.skip_string("listener")?;
                self.skip_string("host")?;
                self.reader.bytes(2, "port")?;
                self.reader.skip_tags("listener tags")?;
            }
            self.copied = self.position();
            put_length(&mut self.out, true, 0);
            self.reader.skip_tags("node tags")?;
        }
        Ok(())
    }

    /// Handles ShareFetch, whose partitions have records, and ShareAcknowledge.
    fn share_response(
        &mut self,
        has_lock_time: bool,
        has_records: bool,
        mapper: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.reader.i32("throttle time")?;
        self.reader.i16("error code")?;
        self.skip_nullable_string("error message")?;
        if has_lock_time {
            self.reader.i32("lock time")?;
        }
        for _ in 0..self.count(18, "topics")? {
            self.reader.bytes(16, "topic id")?;
            for _ in 0..self.count(17, "partitions")? {
                self.share_partition(has_records)?;
            }
            self.reader.skip_tags("topic tags")?;
        }
        self.replace_brokers(ENDPOINT, mapper)
    }

    fn share_partition(&mut self, has_records: bool) -> Result<(), WireError> {
        self.reader.i32("partition")?;
        self.reader.i16("error code")?;
        self.skip_nullable_string("error message")?;
        if has_records {
            self.reader.i16("acknowledge error code")?;
            self.skip_nullable_string("acknowledge error message")?;
        }
        self.reader.bytes(8, "leader")?;
        self.reader.skip_tags("leader tags")?;
        if has_records {
            self.skip_nullable_string("records")?;
            for _ in 0..self.count(19, "acquired records")? {
                self.reader.bytes(18, "acquired records")?;
                self.reader.skip_tags("acquired records tags")?;
            }
        }
        self.reader.skip_tags("partition tags")
    }
}

/// Endpoint type of brokers in DescribeCluster responses.
const BROKERS: i8 = 1;

/// Writes the error code COORDINATOR_NOT_AVAILABLE at `at`; clients retry after this error.
fn put_unavailable(out: &mut [u8], at: usize) {
    out[at..at + 2].copy_from_slice(&15_i16.to_be_bytes());
}

/// Mapper without an advertised address for any broker.
struct NoAddresses;

impl AddressMapper for NoAddresses {
    fn address_of(&mut self, _: super::BrokerNode<'_>) -> Option<HostPort> {
        None
    }
}

#[cfg(test)]
#[path = "../../tests/wire/rewrite.rs"]
mod tests;
