//! Headers as other programs write them, wrong ones, and properties.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Returns a header of version 2 without checksum.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = (rest.len() as u16).to_be_bytes();
    [
        version_2::SIGNATURE,
        &[0x20 | command, family],
        &length,
        rest,
    ]
    .concat()
}

const IPV4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x1f, 0x90, 0x23, 0x84];

#[test]
fn lines_are_parsed() {
    let cases = [
        (
            "PROXY TCP4 192.0.2.1 198.51.100.2 8080 9092\r\n",
            Some(("192.0.2.1:8080", "198.51.100.2:9092")),
        ),
        (
            "PROXY TCP6 2001:db8::1 ::1 65535 1\r\n",
            Some(("[2001:db8::1]:65535", "[::1]:1")),
        ),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    ];
    for (line, wanted) in cases {
        let followed = format!("{line}more\r\n");
        let parsed = ProxyHeader::parse(followed.as_bytes());
        let (header, used) = parsed.expect(line).expect(line);
        let wanted = wanted.map(|(from, to)| (address(from), address(to)));
        assert_eq!((header.addresses, used), (wanted, line.len()), "{line}");
    }
}

#[test]
fn wrong_lines_are_rejected() {
    for line in [
        "PROXY TCP4 192.0.2.1 198.51.100.2 8080\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 8080 9092 1\r\n",
        "PROXY TCP4 192.0.2.1  198.51.100.2 8080 9092\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.2 8080 9092\r\n",
        "PROXY TCP4 ::1 ::1 8080 9092\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 08080 9092\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 +8080 9092\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 65536 9092\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 8080 9092\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.2 8080 9092\r\n",
        "PROXY \r\n",
    ] {
        let parsed = ProxyHeader::parse(line.as_bytes());
        assert_eq!(parsed, Err(ProxyHeaderError::Line), "{line}");
    }
    let long = format!("PROXY UNKNOWN {}", "x".repeat(100));
    let parsed = |bytes| ProxyHeader::parse(&long.as_bytes()[..bytes]);
    assert_eq!(parsed(106), Ok(None));
    assert_eq!(parsed(107), Err(ProxyHeaderError::TooLong));
    for other in ["GET / HTTP/1.1\r\n", "proxy UNKNOWN\r\n", "\u{16}\u{3}"] {
        let parsed = ProxyHeader::parse(other.as_bytes());
        assert_eq!(parsed, Err(ProxyHeaderError::Missing), "{other}");
    }
}

#[test]
fn binary_headers_are_parsed() {
    let tls = [
        &[0x20, 0, 23, 7, 0, 0, 0, 0][..],
        &[0x21, 0, 7],
        b"TLSv1.3",
        &[0x22, 0, 5],
        b"alice",
    ]
    .concat();
    let values = [&[2, 0, 8][..], b"b1.kafka", &[4, 0, 1, 9], &tls].concat();
    let bytes = binary(1, 0x11, &[&IPV4[..], &values].concat());
    let (header, used) = ProxyHeader::parse(&bytes)
        .expect("valid")
        .expect("complete");
    let wanted = ProxyHeader {
        addresses: Some((address("192.0.2.1:8080"), address("198.51.100.2:9092"))),
        authority: Some("b1.kafka".into()),
        tls: Some(ForwardedTls {
            version: Some("TLSv1.3".into()),
            common_name: Some("alice".into()),
            is_verified: true,
        }),
    };
    assert_eq!((header, used), (wanted, bytes.len()));
    // LOCAL and an unspecified family: the addresses of the socket count.
    for bytes in [
        binary(0, 0x11, &IPV4),
        binary(0, 0xff, b"anything"),
        binary(1, 0, &[]),
    ] {
        let parsed = ProxyHeader::parse(&bytes);
        assert_eq!(parsed, Ok(Some((ProxyHeader::default(), bytes.len()))));
    }
}

#[test]
fn wrong_binary_headers_are_rejected() {
    use ProxyHeaderError as Error;
    let with = |values: &[u8]| binary(1, 0x11, &[&IPV4[..], values].concat());
    let header = ProxyHeader {
        addresses: Some((address("192.0.2.1:8080"), address("198.51.100.2:9092"))),
        authority: Some("orders.example.com".into()),
        ..ProxyHeader::default()
    };
    let good = header.to_version_2();
    // Every changed byte after the fixed part is noticed, except in the type of the checksum.
    for at in (16..good.len()).filter(|at| *at != good.len() - 7) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        ProxyHeader::parse(&bad).expect_err("a wrong checksum");
    }
    let mut version = good.clone();
    version[12] = 0x31;
    let mut long = good.clone();
    long[14..16].copy_from_slice(&4081_u16.to_be_bytes());
    let twice = [[3, 0, 4, 0, 0, 0, 0]; 2].concat();
    let cases = [
        (version, Error::Version(3)),
        (long, Error::TooLong),
        (binary(2, 0x11, &IPV4), Error::Command(2)),
        (binary(1, 0x12, &IPV4), Error::Family(0x12)),
        (binary(1, 0x31, &[0; 216]), Error::Family(0x31)),
        (binary(1, 0x11, &IPV4[..11]), Error::Length),
        (binary(1, 0x21, &IPV4), Error::Length),
        (with(&[2, 0]), Error::Length),
        (with(&[2, 0, 2, b'a']), Error::Length),
        (with(&[3, 0, 3, 0, 0, 0]), Error::Length),
        (with(&[0x20, 0, 4, 1, 0, 0, 0]), Error::Length),
        (with(&twice), Error::Checksum),
        (with(&[2, 0, 2, b'a', b'\n']), Error::Text),
        (with(&[2, 0, 1, 0xff]), Error::Text),
        (with(&[&[2, 1, 0][..], &[b'a'; 256]].concat()), Error::Text),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(ProxyHeader::parse(&bytes), Err(wanted), "{bytes:02x?}");
    }
}

fn socket_address() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<([u8; 4], u16)>().prop_map(SocketAddr::from);
    // Addresses that are IPv4 inside IPv6 stay what they are only next to an IPv6 address.
    let v6 = any::<([u16; 7], u16)>().prop_map(|(groups, port)| {
        let [a, b, c, d, e, f, g] = groups;
        SocketAddr::from(([0x2001, a, b, c, d, e, f, g], port))
    });
    prop_oneof![v4, v6]
}

fn header() -> impl Strategy<Value = ProxyHeader> {
    let text = || proptest::option::of("[ -~é]{0,60}".prop_map(String::into_boxed_str));
    let tls = (text(), text(), any::<bool>()).prop_map(|(version, common_name, is_verified)| {
        ForwardedTls {
            version,
            common_name,
            is_verified,
        }
    });
    let addresses = (socket_address(), socket_address())
        .prop_filter("one family", |(from, to)| from.is_ipv4() == to.is_ipv4());
    let parts = (
        proptest::option::of(addresses),
        text(),
        proptest::option::of(tls),
    );
    parts.prop_map(|(addresses, authority, tls)| ProxyHeader {
        addresses,
        authority,
        tls,
    })
}

proptest! {
    #[test]
    fn encoded_headers_parse_as_the_same(header in header(), more in any::<Vec<u8>>()) {
        let mut bytes = header.to_version_2();
        let length = bytes.len();
        bytes.extend(more);
        prop_assert_eq!(ProxyHeader::parse(&bytes), Ok(Some((header, length))));
    }

    #[test]
    fn changed_and_cut_headers_parse_the_same_when_split(
        header in header(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = header.to_version_2();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fuzz::read(&bytes);
        fuzz::read(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn lines_parse_the_same_when_split(line in "PROXY [TCPUNKOW46]{3,7}[ 0-9a-f.:]{0,40}\r\n") {
        fuzz::read(line.as_bytes());
    }
}
