//! Version 2: binary, with typed values (TLV).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::content::{
    AUTHORITY_BYTES_MAX, ForwardedTls, HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError,
    TEXT_BYTES_MAX,
};

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version with command, family, length.
const FIXED_BYTES: usize = 16;
const VERSION: u8 = 0x20;
const LOCAL: u8 = 0;
const PROXY: u8 = 1;
/// Families with their protocol: unspecified, and TCP.
const UNSPECIFIED: u8 = 0;
const TCP_IPV4: u8 = 0x11;
const TCP_IPV6: u8 = 0x21;
/// Types of values.
const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const TLS: u8 = 0x20;
const TLS_VERSION: u8 = 0x21;
const TLS_COMMON_NAME: u8 = 0x22;
/// Client flags of the value TLS.
const USED_TLS: u8 = 1;
const PRESENTED_CERTIFICATE: u8 = 2;
/// Type and length of a value.
const VALUE_HEAD_BYTES: usize = 3;
/// Flags and result of the verification.
const TLS_HEAD_BYTES: usize = 5;

pub(super) fn parse(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let Some(fixed) = input.first_chunk::<FIXED_BYTES>() else {
        return Ok(None);
    };
    let [.., version, family, high, low] = *fixed;
    if version & 0xf0 != VERSION {
        return Err(ProxyHeaderError::Version(version >> 4));
    }
    let total = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if total > HEADER_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    let is_local = match version & 0x0f {
        LOCAL => true,
        PROXY => false,
        other => return Err(ProxyHeaderError::Command(other)),
    };
    let Some(header) = input.get(..total) else {
        return Ok(None);
    };
    let content = match is_local {
        // The specification requires to ignore the rest.
        true => ProxyHeader::default(),
        false => parse_content(header, family)?,
    };
    Ok(Some((content, total)))
}

fn parse_content(header: &[u8], family: u8) -> Result<ProxyHeader, ProxyHeaderError> {
    let rest = &header[FIXED_BYTES..];
    let (addresses, values) = match family {
        UNSPECIFIED => (None, rest),
        TCP_IPV4 => split_addresses::<4, 12>(rest)?,
        TCP_IPV6 => split_addresses::<16, 36>(rest)?,
        other => return Err(ProxyHeaderError::Family(other)),
    };
    let mut content = ProxyHeader {
        addresses,
        ..ProxyHeader::default()
    };
    let values_at = header.len() - values.len();
    let mut has_checksum = false;
    for value in Values(values) {
        let (at, kind, value) = value?;
        match kind {
            AUTHORITY => content.authority = Some(text(value, AUTHORITY_BYTES_MAX)?),
            CRC32C if std::mem::replace(&mut has_checksum, true) => {
                return Err(ProxyHeaderError::Checksum);
            }
            CRC32C => check(header, values_at + (values.len() - at), value)?,
            TLS => content.tls = parse_tls(value)?,
            _ => {}
        }
    }
    Ok(content)
}

type Addresses = Option<(SocketAddr, SocketAddr)>;

/// Splits two addresses of `HOST` bytes each and two ports from the values after them.
fn split_addresses<const HOST: usize, const ALL: usize>(
    rest: &[u8],
) -> Result<(Addresses, &[u8]), ProxyHeaderError>
where
    IpAddr: From<[u8; HOST]>,
{
    let (all, values) = rest
        .split_first_chunk::<ALL>()
        .ok_or(ProxyHeaderError::Length)?;
    let address = |host_at: usize, port_at: usize| {
        let mut host = [0; HOST];
        host.copy_from_slice(&all[host_at..host_at + HOST]);
        let port = u16::from_be_bytes([all[port_at], all[port_at + 1]]);
        SocketAddr::new(IpAddr::from(host), port)
    };
    let both = (address(0, 2 * HOST), address(HOST, 2 * HOST + 2));
    Ok((Some(both), values))
}

/// Values with their types. Each has the number of bytes from its content to the end.
struct Values<'a>(&'a [u8]);

impl<'a> Iterator for Values<'a> {
    type Item = Result<(usize, u8, &'a [u8]), ProxyHeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.0);
        let Some(([kind, high, low], rest)) = rest.split_first_chunk::<VALUE_HEAD_BYTES>() else {
            return Some(Err(ProxyHeaderError::Length));
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((value, more)) = rest.split_at_checked(length) else {
            return Some(Err(ProxyHeaderError::Length));
        };
        self.0 = more;
        Some(Ok((rest.len(), *kind, value)))
    }
}

/// Compares the checksum at `at` with that of the header, in which its own bytes count as 0.
fn check(header: &[u8], at: usize, value: &[u8]) -> Result<(), ProxyHeaderError> {
    let found = value.try_into().map_err(|_| ProxyHeaderError::Length)?;
    let (before, rest) = header.split_at(at);
    let computed = [before, &[0; 4], &rest[4..]]
        .into_iter()
        .fold(0, crc32c::crc32c_append);
    match computed == u32::from_be_bytes(found) {
        true => Ok(()),
        false => Err(ProxyHeaderError::Checksum),
    }
}

fn parse_tls(value: &[u8]) -> Result<Option<ForwardedTls>, ProxyHeaderError> {
    let (head, values) = value
        .split_first_chunk::<TLS_HEAD_BYTES>()
        .ok_or(ProxyHeaderError::Length)?;
    let [flags, verified @ ..] = *head;
    let mut tls = ForwardedTls {
        is_verified: flags & PRESENTED_CERTIFICATE != 0 && verified == [0; 4],
        ..ForwardedTls::default()
    };
    for value in Values(values) {
        let (_, kind, value) = value?;
        match kind {
            TLS_VERSION => tls.version = Some(text(value, TEXT_BYTES_MAX)?),
            TLS_COMMON_NAME => tls.common_name = Some(text(value, TEXT_BYTES_MAX)?),
            _ => {}
        }
    }
    Ok((flags & USED_TLS != 0).then_some(tls))
}

/// Returns a text without control characters, which could forge lines of a log.
fn text(value: &[u8], bytes_max: usize) -> Result<Box<str>, ProxyHeaderError> {
    let text = std::str::from_utf8(value).ok();
    let usable = |text: &&str| text.len() <= bytes_max && !text.chars().any(char::is_control);
    let text = text.filter(usable).ok_or(ProxyHeaderError::Text)?;
    Ok(text.into())
}

pub(super) fn encode(content: &ProxyHeader) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    let (family, addresses) = match content.addresses {
        None => (UNSPECIFIED, Vec::new()),
        Some((from, to)) => encode_addresses(from, to),
    };
    let is_local = *content == ProxyHeader::default();
    let command = if is_local { LOCAL } else { PROXY };
    header.extend([VERSION | command, family, 0, 0]);
    header.extend(addresses);
    if let Some(authority) = &content.authority {
        push_value(&mut header, AUTHORITY, authority.as_bytes());
    }
    if let Some(tls) = &content.tls {
        push_value(&mut header, TLS, &encode_tls(tls));
    }
    push_value(&mut header, CRC32C, &[0; 4]);
    // Texts are bounded, so the sum is far below the limit.
    let length = (header.len() - FIXED_BYTES) as u16;
    header[FIXED_BYTES - 2..FIXED_BYTES].copy_from_slice(&length.to_be_bytes());
    let checksum = crc32c::crc32c(&header);
    let at = header.len() - 4;
    header[at..].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Encodes two addresses as IPv4 if both are, else as IPv6.
fn encode_addresses(from: SocketAddr, to: SocketAddr) -> (u8, Vec<u8>) {
    let ports = [from.port(), to.port()].map(u16::to_be_bytes);
    let (family, hosts) = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (TCP_IPV4, [from.octets(), to.octets()].concat()),
        (from, to) => {
            let hosts = [from, to].map(|host| as_ipv6(host).octets());
            (TCP_IPV6, hosts.concat())
        }
    };
    (family, [&hosts[..], &ports[0], &ports[1]].concat())
}

fn as_ipv6(host: IpAddr) -> Ipv6Addr {
    match host {
        IpAddr::V4(host) => host.to_ipv6_mapped(),
        IpAddr::V6(host) => host,
    }
}

fn encode_tls(tls: &ForwardedTls) -> Vec<u8> {
    let (flags, unverified) = match tls.is_verified {
        true => (USED_TLS | PRESENTED_CERTIFICATE, 0_u32),
        false => (USED_TLS, 1),
    };
    let mut value = vec![flags];
    value.extend(unverified.to_be_bytes());
    let texts = [
        (TLS_VERSION, &tls.version),
        (TLS_COMMON_NAME, &tls.common_name),
    ];
    for (kind, text) in texts {
        if let Some(text) = text {
            push_value(&mut value, kind, text.as_bytes());
        }
    }
    value
}

fn push_value(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let [high, low] = (value.len() as u16).to_be_bytes();
    out.extend([kind, high, low]);
    out.extend(value);
}
