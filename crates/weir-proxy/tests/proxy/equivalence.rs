//! Requests of every API and version have the same responses from the broker and through the proxy,
//! apart from addresses.

use std::net::SocketAddr;

use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;

use super::support::*;

/// APIs that brokers offer and the proxy does not: between share coordinators and brokers.
const BETWEEN_BROKERS: [i16; 5] = [83, 84, 85, 86, 87];

fn broker_address() -> SocketAddr {
    broker().parse().expect("an address")
}

fn api_versions(address: SocketAddr, version: i16) -> ApiVersionsResponse {
    let request = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str(if version < 3 {
            ""
        } else {
            "test"
        }))
        .with_client_software_version(StrBytes::from_static_str(if version < 3 {
            ""
        } else {
            "1"
        }));
    Raw::connect(address).exchange(version, &request)
}

#[test]
fn proxy_offers_what_the_broker_offers() {
    let proxy = proxy("");
    for version in 0..=4 {
        let mut wanted = api_versions(broker_address(), version);
        let count = wanted.api_keys.len();
        wanted
            .api_keys
            .retain(|row| !BETWEEN_BROKERS.contains(&row.api_key));
        assert_eq!(wanted.api_keys.len(), count - BETWEEN_BROKERS.len());
        let offered = api_versions(proxy.address, version);
        // Among them the features, which depend on these versions.
        assert_eq!(offered, wanted, "version {version}");
    }
}

/// Compares the documented versions of the latest release with those of the broker.
#[test]
fn documented_versions_are_those_of_the_broker() {
    let table = include_str!("../../../../docs/proxy-apis.md");
    let documented: Vec<_> = table
        .lines()
        .filter_map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let key: i16 = cells.get(1)?.parse().ok()?;
            let (min, max) = cells.get(7)?.split_once('-')?;
            Some((key, min.parse::<i16>().ok()?, max.parse::<i16>().ok()?))
        })
        .collect();
    let offered = api_versions(broker_address(), 4);
    let mut offered: Vec<_> = offered
        .api_keys
        .iter()
        .map(|row| (row.api_key, row.min_version, row.max_version))
        .collect();
    offered.sort_unstable();
    assert_eq!(documented, offered);
}
