//! Brokers as answers name them, and where clients reach them instead.

use weir_kafka::wire::WireError;
use weir_kafka::wire::reader::WireReader;

/// A broker in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerNode<'a> {
    /// Its number; never negative.
    pub id: i32,
    /// Host as the brokers advertise it.
    pub host: &'a str,
    /// Port as the brokers advertise it.
    pub port: u16,
}

/// An address that clients are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisedAddress {
    /// Host or IP address.
    pub host: String,
    /// Port of the proxy.
    pub port: u16,
}

/// Who knows where clients reach a broker.
pub trait AddressMapper {
    /// The place for a broker, which is opened if it is new; `None` if there is none left, and the
    /// broker then does not appear in the answer.
    fn place(&mut self, node: BrokerNode<'_>) -> Option<AdvertisedAddress>;
}

/// What follows host and port of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BrokerEntryLayout {
    pub(super) flexible: bool,
    pub(super) rack: bool,
    pub(super) fenced: bool,
}

/// One entry of a list of brokers.
#[derive(Debug, Clone, Copy)]
struct BrokerEntry<'a> {
    id: i32,
    host: &'a str,
    port: i32,
    /// Rack and whatever follows, to the entry's end.
    tail: &'a [u8],
}

/// The least an entry takes: id, length of host, port.
const ENTRY_BYTES_MIN: usize = 9;

/// Reads a list of brokers and appends it to `out` with the addresses that clients are to use.
pub(super) fn replace_list(
    reader: &mut WireReader<'_>,
    layout: BrokerEntryLayout,
    places: &mut dyn AddressMapper,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let count = match layout.flexible {
        true => reader.compact_count(ENTRY_BYTES_MIN, "brokers")?,
        false => reader.count(ENTRY_BYTES_MIN, "brokers")?,
    };
    let mut kept = Vec::with_capacity(count);
    for _ in 0..count {
        let listed = read_listed(reader, layout)?;
        if let Some(place) = resolve(places, listed.id, listed.host, listed.port) {
            kept.push((listed, place));
        }
    }
    if layout.flexible {
        put_uvarint(out, kept.len() as u32 + 1);
    } else {
        out.extend_from_slice(&(kept.len() as i32).to_be_bytes());
    }
    for (listed, place) in kept {
        out.extend_from_slice(&listed.id.to_be_bytes());
        put_address(out, &place, layout.flexible);
        out.extend_from_slice(listed.tail);
    }
    Ok(())
}

fn read_listed<'a>(
    reader: &mut WireReader<'a>,
    layout: BrokerEntryLayout,
) -> Result<BrokerEntry<'a>, WireError> {
    let id = reader.i32("node id")?;
    let host = string(reader, layout.flexible, "host")?;
    let port = reader.i32("port")?;
    let start = reader.rest();
    if layout.rack && layout.flexible {
        reader.compact_bytes("rack")?;
    } else if layout.rack {
        reader.nullable_string("rack")?;
    }
    if layout.fenced {
        reader.i8("fenced")?;
    }
    if layout.flexible {
        reader.skip_tags("broker tags")?;
    }
    let tail = &start[..start.len() - reader.rest().len()];
    Ok(BrokerEntry {
        id,
        host,
        port,
        tail,
    })
}

/// A place for what may be a broker.
pub(super) fn resolve(
    places: &mut dyn AddressMapper,
    id: i32,
    host: &str,
    port: i32,
) -> Option<AdvertisedAddress> {
    let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
    if id < 0 || host.is_empty() {
        return None;
    }
    places.place(BrokerNode { id, host, port })
}

pub(super) fn string<'a>(
    reader: &mut WireReader<'a>,
    flexible: bool,
    what: &'static str,
) -> Result<&'a str, WireError> {
    if flexible {
        reader.compact_string(what)
    } else {
        reader.string(what)
    }
}

/// Appends host and port.
pub(super) fn put_address(out: &mut Vec<u8>, place: &AdvertisedAddress, flexible: bool) {
    // Configured hosts are at most 255 bytes long.
    let host = place.host.as_bytes();
    if flexible {
        put_uvarint(out, host.len() as u32 + 1);
    } else {
        out.extend_from_slice(&(host.len() as u16).to_be_bytes());
    }
    out.extend_from_slice(host);
    out.extend_from_slice(&i32::from(place.port).to_be_bytes());
}

/// Appends an unsigned number of a flexible version.
pub(super) fn put_uvarint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Has a place for every broker, or for some.
    #[derive(Debug, Default)]
    pub(in crate::wire) struct TestAddressMapper {
        only: Option<Vec<i32>>,
    }

    impl TestAddressMapper {
        pub(in crate::wire) fn only(ids: &[i32]) -> Self {
            Self {
                only: Some(ids.to_vec()),
            }
        }
    }

    impl AddressMapper for TestAddressMapper {
        fn place(&mut self, node: BrokerNode<'_>) -> Option<AdvertisedAddress> {
            let wanted = self.only.as_ref().is_none_or(|ids| ids.contains(&node.id));
            wanted.then(|| AdvertisedAddress {
                host: "proxy".to_owned(),
                port: u16::try_from(19_000 + node.id).unwrap_or(1),
            })
        }
    }

    #[test]
    fn what_is_no_broker_has_no_place() {
        let mut table = TestAddressMapper::default();
        assert!(resolve(&mut table, 1, "h", 9092).is_some());
        for (id, host, port) in [(-1, "h", 9092), (1, "", 9092), (1, "h", -1), (1, "h", 0)] {
            assert_eq!(resolve(&mut table, id, host, port), None);
        }
        assert_eq!(resolve(&mut table, 1, "h", 65_536), None);
    }
}
