//! Replaces broker addresses in responses with addresses of the proxy.

use weir_kafka::wire::WireError;
use weir_kafka::wire::reader::WireReader;

use super::SIZE_BYTES;
use super::addresses::{
    AddressMapper, AdvertisedAddress, BrokerEntryLayout, put_address, put_uvarint, replace_list,
    resolve, string,
};
use super::headers::response_body_at;
use crate::versions::{
    DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, PRODUCE, SHARE_ACKNOWLEDGE, SHARE_FETCH, flexible,
};

/// Returns `true` if responses of this version may contain addresses.
pub(super) fn may_carry_addresses(key: i16, version: i16) -> bool {
    match key {
        PRODUCE => version >= 10,
        METADATA | FIND_COORDINATOR | DESCRIBE_CLUSTER | SHARE_FETCH | SHARE_ACKNOWLEDGE => true,
        _ => false,
    }
}

/// Returns the frame with the addresses that clients see, or `None` if it contains no addresses.
/// Both frames include the size prefix.
///
/// # Errors
/// Returns an error if the response does not match its version.
pub(super) fn addresses(
    frame: &[u8],
    key: i16,
    version: i16,
    mapper: &mut dyn AddressMapper,
) -> Result<Option<Vec<u8>>, WireError> {
    let body_at = response_body_at(frame, key, version)?;
    let mut response = Rewriting {
        frame,
        reader: WireReader::new(&frame[body_at..]),
        copied: 0,
        out: Vec::new(),
        flexible: flexible(key, version),
    };
    match key {
        METADATA => response.metadata(version, mapper)?,
        FIND_COORDINATOR => response.coordinators(version, mapper)?,
        DESCRIBE_CLUSTER => response.cluster(version, mapper)?,
        PRODUCE => response.produce(version, mapper)?,
        SHARE_FETCH => response.share_fetch(version, mapper)?,
        SHARE_ACKNOWLEDGE => response.share_acknowledge(version, mapper)?,
        _ => {}
    }
    Ok(response.finish())
}

/// Registers the brokers in a response to a request of the proxy itself.
pub(crate) fn register_brokers(
    frame: &[u8],
    key: i16,
    version: i16,
    mapper: &mut dyn AddressMapper,
) -> Result<(), WireError> {
    addresses(frame, key, version, mapper).map(drop)
}

/// A response that is being rewritten. Parts between replacements are copied.
struct Rewriting<'a> {
    frame: &'a [u8],
    reader: WireReader<'a>,
    /// Position up to which the frame is copied or replaced.
    copied: usize,
    out: Vec<u8>,
    flexible: bool,
}

/// The layout of node endpoints: a broker with rack and tags.
const ENDPOINT: BrokerEntryLayout = BrokerEntryLayout {
    flexible: true,
    rack: true,
    fenced: false,
};

impl Rewriting<'_> {
    fn position(&self) -> usize {
        self.frame.len() - self.reader.rest().len()
    }

    /// Copies the part up to the reader's position.
    fn copy(&mut self) {
        if self.out.is_empty() {
            self.out.reserve(self.frame.len() + 64);
        }
        let position = self.position();
        self.out
            .extend_from_slice(&self.frame[self.copied..position]);
        self.copied = position;
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        if self.out.is_empty() {
            return None;
        }
        self.out.extend_from_slice(&self.frame[self.copied..]);
        // Frames are far below 2^31 bytes and grow by a few addresses only.
        let size = (self.out.len() - SIZE_BYTES) as i32;
        self.out[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
        Some(self.out)
    }

    /// Replaces the list of brokers at the reader's position.
    fn list(
        &mut self,
        layout: BrokerEntryLayout,
        mapper: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.copy();
        replace_list(&mut self.reader, layout, mapper, &mut self.out)?;
        self.copied = self.position();
        Ok(())
    }

    fn text(&mut self, what: &'static str) -> Result<(), WireError> {
        string(&mut self.reader, self.flexible, what).map(drop)
    }

    fn nullable_text(&mut self, what: &'static str) -> Result<(), WireError> {
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
        self.list(layout, mapper)
    }

    fn cluster(&mut self, version: i16, mapper: &mut dyn AddressMapper) -> Result<(), WireError> {
        self.reader.i32("throttle time")?;
        self.reader.i16("error code")?;
        self.nullable_text("error message")?;
        let controllers = version >= 1 && self.reader.i8("endpoint type")? != BROKERS;
        self.text("cluster id")?;
        self.reader.i32("controller id")?;
        let layout = BrokerEntryLayout {
            fenced: version >= 2,
            ..ENDPOINT
        };
        if controllers {
            // Clients of the proxy cannot reach controllers, and a controller may have the node id
            // of a broker.
            return self.list(layout, &mut NoAddresses);
        }
        self.list(layout, mapper)
    }

    fn coordinators(
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
                self.nullable_text("error message")?;
            }
            if !self.coordinator(mapper)? {
                self.mark_unavailable(error_at);
            }
            return Ok(());
        }
        for _ in 0..self.count(18, "coordinators")? {
            self.text("key")?;
            let found = self.coordinator(mapper)?;
            let error_at = self.position();
            self.reader.i16("error code")?;
            if !found {
                self.copy();
                // The fields copied last begin after the address.
                let at = self.out.len() - (self.position() - error_at);
                put_unavailable(&mut self.out, at);
            }
            self.nullable_text("error message")?;
            self.reader.skip_tags("coordinator tags")?;
        }
        Ok(())
    }

    /// Replaces node id, host and port of a coordinator. Returns `false` if the coordinator has no
    /// advertised address.
    fn coordinator(&mut self, mapper: &mut dyn AddressMapper) -> Result<bool, WireError> {
        let before = self.reader;
        let id = self.reader.i32("node id")?;
        let host = string(&mut self.reader, self.flexible, "host")?;
        let port = self.reader.i32("port")?;
        let address = resolve(mapper, id, host, port);
        if address.is_none() && host.is_empty() {
            // No coordinator was found, so no address must be replaced.
            return Ok(true);
        }
        let after = std::mem::replace(&mut self.reader, before);
        self.copy();
        self.reader = after;
        self.copied = self.position();
        match address {
            Some(address) => {
                self.out.extend_from_slice(&id.to_be_bytes());
                put_address(&mut self.out, &address, self.flexible);
                Ok(true)
            }
            None => {
                self.out.extend_from_slice(&(-1_i32).to_be_bytes());
                match self.flexible {
                    true => put_uvarint(&mut self.out, 1),
                    false => self.out.extend_from_slice(&[0, 0]),
                }
                self.out.extend_from_slice(&(-1_i32).to_be_bytes());
                Ok(false)
            }
        }
    }

    /// Sets the error code of a coordinator. It precedes the address, so its position is the same
    /// in both frames.
    fn mark_unavailable(&mut self, error_at: usize) {
        put_unavailable(&mut self.out, error_at);
    }

    fn produce(&mut self, version: i16, mapper: &mut dyn AddressMapper) -> Result<(), WireError> {
        for _ in 0..self.count(3, "topics")? {
            if version >= 13 {
                self.reader.bytes(16, "topic id")?;
            } else {
                self.text("topic")?;
            }
            for _ in 0..self.count(33, "partitions")? {
                // Index, error code, offset, timestamp, start of the log.
                self.reader.bytes(30, "partition")?;
                for _ in 0..self.count(6, "record errors")? {
                    self.reader.i32("batch index")?;
                    self.nullable_text("record error")?;
                    self.reader.skip_tags("record error tags")?;
                }
                self.nullable_text("error message")?;
                self.reader.skip_tags("partition tags")?;
            }
            self.reader.skip_tags("topic tags")?;
        }
        self.reader.i32("throttle time")?;
        self.tagged_endpoints(mapper)
    }

    /// Replaces tag 0 of the tagged fields at the end of the response.
    fn tagged_endpoints(&mut self, mapper: &mut dyn AddressMapper) -> Result<(), WireError> {
        for _ in 0..self.reader.uvarint("tags")? {
            let tag = self.reader.uvarint("tag")?;
            let before = self.reader;
            let bytes = self.reader.uvarint("tag size")?;
            let content = self.reader.bytes(bytes as usize, "tag")?;
            if tag != 0 {
                continue;
            }
            let after = std::mem::replace(&mut self.reader, before);
            self.copy();
            self.reader = after;
            self.copied = self.position();
            let mut endpoints = Vec::with_capacity(content.len() + 32);
            replace_list(
                &mut WireReader::new(content),
                ENDPOINT,
                mapper,
                &mut endpoints,
            )?;
            put_uvarint(&mut self.out, endpoints.len() as u32);
            self.out.extend_from_slice(&endpoints);
        }
        Ok(())
    }

    fn share_fetch(
        &mut self,
        version: i16,
        mapper: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.reader.i32("throttle time")?;
        self.reader.i16("error code")?;
        self.nullable_text("error message")?;
        if version >= 1 {
            self.reader.i32("lock time")?;
        }
        self.share_topics(|response| {
            response.reader.i32("partition")?;
            response.reader.i16("error code")?;
            response.nullable_text("error message")?;
            response.reader.i16("acknowledge error code")?;
            response.nullable_text("acknowledge error message")?;
            response.leader()?;
            response.nullable_text("records")?;
            for _ in 0..response.count(19, "acquired records")? {
                response.reader.bytes(18, "acquired records")?;
                response.reader.skip_tags("acquired records tags")?;
            }
            response.reader.skip_tags("partition tags")
        })?;
        self.list(ENDPOINT, mapper)
    }

    fn share_acknowledge(
        &mut self,
        version: i16,
        mapper: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.reader.i32("throttle time")?;
        self.reader.i16("error code")?;
        self.nullable_text("error message")?;
        if version >= 2 {
            self.reader.i32("lock time")?;
        }
        self.share_topics(|response| {
            response.reader.i32("partition")?;
            response.reader.i16("error code")?;
            response.nullable_text("error message")?;
            response.leader()?;
            response.reader.skip_tags("partition tags")
        })?;
        self.list(ENDPOINT, mapper)
    }

    fn share_topics(
        &mut self,
        mut partition: impl FnMut(&mut Self) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        for _ in 0..self.count(18, "topics")? {
            self.reader.bytes(16, "topic id")?;
            for _ in 0..self.count(17, "partitions")? {
                partition(self)?;
            }
            self.reader.skip_tags("topic tags")?;
        }
        Ok(())
    }

    fn leader(&mut self) -> Result<(), WireError> {
        self.reader.bytes(8, "leader")?;
        self.reader.skip_tags("leader tags")
    }
}

/// Endpoint type of brokers.
const BROKERS: i8 = 1;

/// Sets the error COORDINATOR_NOT_AVAILABLE, on which clients retry.
fn put_unavailable(out: &mut [u8], at: usize) {
    out[at..at + 2].copy_from_slice(&15_i16.to_be_bytes());
}

/// A mapper without addresses.
struct NoAddresses;

impl AddressMapper for NoAddresses {
    fn address_of(&mut self, _: super::BrokerNode<'_>) -> Option<AdvertisedAddress> {
        None
    }
}

#[cfg(test)]
mod tests;
