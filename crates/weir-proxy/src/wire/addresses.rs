//! Brokers in responses, and the addresses that clients see instead.

use weir_kafka::wire::WireError;
use weir_kafka::wire::reader::WireReader;

/// A broker in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokerNode<'a> {
    /// Node id, not negative.
    pub(crate) id: i32,
    /// Host name as the broker advertises it.
    pub(crate) host: &'a str,
    /// Port as the broker advertises it.
    pub(crate) port: u16,
}

/// An address that clients see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdvertisedAddress {
    /// Host name or IP address.
    pub(crate) host: String,
    /// Port of the proxy.
    pub(crate) port: u16,
}

/// A mapping from brokers to the addresses that clients see.
pub(crate) trait AddressMapper {
    /// Returns the advertised address of a broker and opens its port if it is new. Returns `None`
    /// if no port is available; the broker is then left out of the response.
    fn address_of(&mut self, node: BrokerNode<'_>) -> Option<AdvertisedAddress>;
}

/// The fields of a broker entry after host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BrokerEntryLayout {
    pub(super) flexible: bool,
    pub(super) rack: bool,
    pub(super) fenced: bool,
}

/// One entry of a broker list.
#[derive(Debug, Clone, Copy)]
struct BrokerEntry<'a> {
    id: i32,
    host: &'a str,
    port: i32,
    /// Rack and further fields, up to the end of the entry.
    tail: &'a [u8],
}

/// Minimum size of an entry: node id, length of the host name, port.
const ENTRY_BYTES_MIN: usize = 9;

/// Reads a list of brokers and appends it to `out` with the addresses that clients see.
pub(super) fn replace_list(
    reader: &mut WireReader<'_>,
    layout: BrokerEntryLayout,
    mapper: &mut dyn AddressMapper,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let count = match layout.flexible {
        true => reader.compact_count(ENTRY_BYTES_MIN, "brokers")?,
        false => reader.count(ENTRY_BYTES_MIN, "brokers")?,
    };
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let entry = read_entry(reader, layout)?;
        if let Some(address) = resolve(mapper, entry.id, entry.host, entry.port) {
            entries.push((entry, address));
        }
    }
    if layout.flexible {
        put_uvarint(out, entries.len() as u32 + 1);
    } else {
        out.extend_from_slice(&(entries.len() as i32).to_be_bytes());
    }
    for (entry, address) in entries {
        out.extend_from_slice(&entry.id.to_be_bytes());
        put_address(out, &address, layout.flexible);
        out.extend_from_slice(entry.tail);
    }
    Ok(())
}

fn read_entry<'a>(
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

/// Returns the advertised address of a broker, or `None` if the values do not describe one.
pub(super) fn resolve(
    mapper: &mut dyn AddressMapper,
    id: i32,
    host: &str,
    port: i32,
) -> Option<AdvertisedAddress> {
    let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
    if id < 0 || host.is_empty() {
        return None;
    }
    mapper.address_of(BrokerNode { id, host, port })
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
pub(super) fn put_address(out: &mut Vec<u8>, address: &AdvertisedAddress, flexible: bool) {
    // Configured hosts are at most 255 bytes long.
    let host = address.host.as_bytes();
    if flexible {
        put_uvarint(out, host.len() as u32 + 1);
    } else {
        out.extend_from_slice(&(host.len() as u16).to_be_bytes());
    }
    out.extend_from_slice(host);
    out.extend_from_slice(&i32::from(address.port).to_be_bytes());
}

/// Appends an unsigned varint as used in flexible versions.
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

    /// Returns an address for every broker, or only for some.
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
        fn address_of(&mut self, node: BrokerNode<'_>) -> Option<AdvertisedAddress> {
            let wanted = self.only.as_ref().is_none_or(|ids| ids.contains(&node.id));
            wanted.then(|| AdvertisedAddress {
                host: "proxy".to_owned(),
                port: u16::try_from(19_000 + node.id).unwrap_or(1),
            })
        }
    }

    #[test]
    fn non_broker_entries_get_no_address() {
        let mut table = TestAddressMapper::default();
        assert!(resolve(&mut table, 1, "h", 9092).is_some());
        for (id, host, port) in [(-1, "h", 9092), (1, "", 9092), (1, "h", -1), (1, "h", 0)] {
            assert_eq!(resolve(&mut table, id, host, port), None);
        }
        assert_eq!(resolve(&mut table, 1, "h", 65_536), None);
    }
}
