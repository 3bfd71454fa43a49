//! Answers that carry addresses of brokers, with the proxy's own instead.

use weir_kafka::wire::WireError;
use weir_kafka::wire::reader::WireReader;

use super::SIZE_BYTES;
use super::addresses::{
    AddressMapper, AdvertisedAddress, BrokerEntryLayout, put_address, put_uvarint, replace_list,
    resolve, string,
};
use super::headers::answer_body_at;
use crate::versions::{
    DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, PRODUCE, SHARE_ACKNOWLEDGE, SHARE_FETCH, flexible,
};

/// Whether answers of that kind may carry addresses.
pub(super) fn may_carry_addresses(key: i16, version: i16) -> bool {
    match key {
        PRODUCE => version >= 10,
        METADATA | FIND_COORDINATOR | DESCRIBE_CLUSTER | SHARE_FETCH | SHARE_ACKNOWLEDGE => true,
        _ => false,
    }
}

/// The frame with the addresses that clients are to use; `None` if it carries none. Given and made
/// with the prefix.
///
/// # Errors
/// An answer that is not what its version says.
pub(super) fn addresses(
    frame: &[u8],
    key: i16,
    version: i16,
    places: &mut dyn AddressMapper,
) -> Result<Option<Vec<u8>>, WireError> {
    let body_at = answer_body_at(frame, key, version)?;
    let mut answer = Rewriting {
        frame,
        reader: WireReader::new(&frame[body_at..]),
        copied: 0,
        out: Vec::new(),
        flexible: flexible(key, version),
    };
    match key {
        METADATA => answer.metadata(version, places)?,
        FIND_COORDINATOR => answer.coordinators(version, places)?,
        DESCRIBE_CLUSTER => answer.cluster(version, places)?,
        PRODUCE => answer.produce(version, places)?,
        SHARE_FETCH => answer.share_fetch(version, places)?,
        SHARE_ACKNOWLEDGE => answer.share_acknowledge(version, places)?,
        _ => {}
    }
    Ok(answer.finish())
}

/// An answer on its way to a new one: what is not replaced is copied in between.
struct Rewriting<'a> {
    frame: &'a [u8],
    reader: WireReader<'a>,
    /// Up to here the frame is in `out`, or replaced.
    copied: usize,
    out: Vec<u8>,
    flexible: bool,
}

/// A broker with rack and tags, as node endpoints are.
const ENDPOINT: BrokerEntryLayout = BrokerEntryLayout {
    flexible: true,
    rack: true,
    fenced: false,
};

impl Rewriting<'_> {
    fn position(&self) -> usize {
        self.frame.len() - self.reader.rest().len()
    }

    /// Copies what has not been replaced, up to where the reader is.
    fn keep(&mut self) {
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
        // It was below a limit far below 2^31, and grows by some addresses.
        let size = (self.out.len() - SIZE_BYTES) as i32;
        self.out[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
        Some(self.out)
    }

    /// Replaces the list of brokers that comes now.
    fn list(
        &mut self,
        layout: BrokerEntryLayout,
        places: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.keep();
        replace_list(&mut self.reader, layout, places, &mut self.out)?;
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

    fn metadata(&mut self, version: i16, places: &mut dyn AddressMapper) -> Result<(), WireError> {
        if version >= 3 {
            self.reader.i32("throttle time")?;
        }
        let layout = BrokerEntryLayout {
            flexible: self.flexible,
            rack: version >= 1,
            fenced: false,
        };
        self.list(layout, places)
    }

    fn cluster(&mut self, version: i16, places: &mut dyn AddressMapper) -> Result<(), WireError> {
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
            // Clients of the proxy cannot reach controllers, and their numbers may be brokers'.
            return self.list(layout, &mut NoAddresses);
        }
        self.list(layout, places)
    }

    fn coordinators(
        &mut self,
        version: i16,
        places: &mut dyn AddressMapper,
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
            if !self.coordinator(places)? {
                self.refuse(error_at);
            }
            return Ok(());
        }
        for _ in 0..self.count(18, "coordinators")? {
            self.text("key")?;
            let found = self.coordinator(places)?;
            let error_at = self.position();
            self.reader.i16("error code")?;
            if !found {
                self.keep();
                // What was just copied begins behind the address.
                let at = self.out.len() - (self.position() - error_at);
                put_unavailable(&mut self.out, at);
            }
            self.nullable_text("error message")?;
            self.reader.skip_tags("coordinator tags")?;
        }
        Ok(())
    }

    /// Replaces node id, host and port of a coordinator. False if there is one that clients cannot
    /// be told how to reach.
    fn coordinator(&mut self, places: &mut dyn AddressMapper) -> Result<bool, WireError> {
        let before = self.reader;
        let id = self.reader.i32("node id")?;
        let host = string(&mut self.reader, self.flexible, "host")?;
        let port = self.reader.i32("port")?;
        let place = resolve(places, id, host, port);
        if place.is_none() && host.is_empty() {
            // None was found: nothing to hide.
            return Ok(true);
        }
        let after = std::mem::replace(&mut self.reader, before);
        self.keep();
        self.reader = after;
        self.copied = self.position();
        match place {
            Some(place) => {
                self.out.extend_from_slice(&id.to_be_bytes());
                put_address(&mut self.out, &place, self.flexible);
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

    /// Marks a coordinator whose error code lies before its address, at the same place in both
    /// frames.
    fn refuse(&mut self, error_at: usize) {
        put_unavailable(&mut self.out, error_at);
    }

    fn produce(&mut self, version: i16, places: &mut dyn AddressMapper) -> Result<(), WireError> {
        for _ in 0..self.count(3, "topics")? {
            if version >= 13 {
                self.reader.bytes(16, "topic id")?;
            } else {
                self.text("topic")?;
            }
            for _ in 0..self.count(33, "partitions")? {
                // Index, error, offset, time, start of the log.
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
        self.tagged_endpoints(places)
    }

    /// Replaces tag 0 of those that end the answer.
    fn tagged_endpoints(&mut self, places: &mut dyn AddressMapper) -> Result<(), WireError> {
        for _ in 0..self.reader.uvarint("tags")? {
            let tag = self.reader.uvarint("tag")?;
            let before = self.reader;
            let bytes = self.reader.uvarint("tag size")?;
            let content = self.reader.bytes(bytes as usize, "tag")?;
            if tag != 0 {
                continue;
            }
            let after = std::mem::replace(&mut self.reader, before);
            self.keep();
            self.reader = after;
            self.copied = self.position();
            let mut endpoints = Vec::with_capacity(content.len() + 32);
            replace_list(
                &mut WireReader::new(content),
                ENDPOINT,
                places,
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
        places: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.reader.i32("throttle time")?;
        self.reader.i16("error code")?;
        self.nullable_text("error message")?;
        if version >= 1 {
            self.reader.i32("lock time")?;
        }
        self.share_topics(|answer| {
            answer.reader.i32("partition")?;
            answer.reader.i16("error code")?;
            answer.nullable_text("error message")?;
            answer.reader.i16("acknowledge error code")?;
            answer.nullable_text("acknowledge error message")?;
            answer.leader()?;
            answer.nullable_text("records")?;
            for _ in 0..answer.count(19, "acquired records")? {
                answer.reader.bytes(18, "acquired records")?;
                answer.reader.skip_tags("acquired records tags")?;
            }
            answer.reader.skip_tags("partition tags")
        })?;
        self.list(ENDPOINT, places)
    }

    fn share_acknowledge(
        &mut self,
        version: i16,
        places: &mut dyn AddressMapper,
    ) -> Result<(), WireError> {
        self.reader.i32("throttle time")?;
        self.reader.i16("error code")?;
        self.nullable_text("error message")?;
        if version >= 2 {
            self.reader.i32("lock time")?;
        }
        self.share_topics(|answer| {
            answer.reader.i32("partition")?;
            answer.reader.i16("error code")?;
            answer.nullable_text("error message")?;
            answer.leader()?;
            answer.reader.skip_tags("partition tags")
        })?;
        self.list(ENDPOINT, places)
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

/// The endpoint type that says that brokers are listed.
const BROKERS: i8 = 1;

/// COORDINATOR_NOT_AVAILABLE: clients ask again.
fn put_unavailable(out: &mut [u8], at: usize) {
    out[at..at + 2].copy_from_slice(&15_i16.to_be_bytes());
}

/// Has no place for anybody.
struct NoAddresses;

impl AddressMapper for NoAddresses {
    fn place(&mut self, _: super::BrokerNode<'_>) -> Option<AdvertisedAddress> {
        None
    }
}

#[cfg(test)]
mod tests;
