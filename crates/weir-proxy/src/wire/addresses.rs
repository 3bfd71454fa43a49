//! Brokers in responses, and the addresses that clients see instead.

use weir_wire::WireError;
use weir_wire::layout::{put_length, put_string};
use weir_wire::reader::WireReader;

use crate::config::HostPort;

/// A broker in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokerNode<'a> {
    /// Node id, not negative.
    pub(crate) id: i32,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
}

/// A mapping from brokers to the addresses that clients see.
pub(crate) trait AddressMapper {
    /// Returns the advertised address of a broker and opens its port if it is new. Returns `None`
    /// if no port is available; the broker is then left out of the response.
    fn address_of(&mut self, node: BrokerNode<'_>) -> Option<HostPort>;
}

/// The fields of a broker entry after host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BrokerEntryLayout {
    pub(super) flexible: bool,
    pub(super) rack: bool,
    pub(super) fenced: bool,
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
    let BrokerEntryLayout {
        flexible,
        rack,
        fenced,
    } = layout;
    let count = match flexible {
        true => reader.compact_count(ENTRY_BYTES_MIN, "brokers")?,
        false => reader.count(ENTRY_BYTES_MIN, "brokers")?,
    };
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let id = reader.i32("node id")?;
        let host = string(reader, flexible, "host")?;
        let port = reader.i32("port")?;
        let start = reader.rest();
        if rack && flexible {
            reader.compact_bytes("rack")?;
        } else if rack {
            reader.nullable_string("rack")?;
        }
        if fenced {
            reader.i8("fenced")?;
        }
        if flexible {
            reader.skip_tags("broker tags")?;
        }
        let tail = &start[..start.len() - reader.rest().len()];
        entries.extend(resolve(mapper, id, host, port).map(|address| (id, address, tail)));
    }
    put_length(out, flexible, entries.len());
    for (id, address, tail) in entries {
        out.extend_from_slice(&id.to_be_bytes());
        put_string(out, flexible, &address.host);
        out.extend_from_slice(&i32::from(address.port).to_be_bytes());
        out.extend_from_slice(tail);
    }
    Ok(())
}

/// Returns the advertised address of a broker, or `None` if the values do not describe one.
pub(super) fn resolve(
    mapper: &mut dyn AddressMapper,
    id: i32,
    host: &str,
    port: i32,
) -> Option<HostPort> {
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
    match flexible {
        true => reader.compact_string(what),
        false => reader.string(what),
    }
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
        fn address_of(&mut self, node: BrokerNode<'_>) -> Option<HostPort> {
            let wanted = self.only.as_ref().is_none_or(|ids| ids.contains(&node.id));
            let port = u16::try_from(19_000 + node.id).unwrap_or(1);
            wanted.then(|| HostPort::new("proxy", port))
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
