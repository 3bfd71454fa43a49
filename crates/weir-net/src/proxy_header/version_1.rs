//! Version 1: a line of text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::content::{ProxyHeader, ProxyHeaderError};

pub(super) const START: &[u8] = b"PROXY ";
/// Longest line with its end.
const LINE_BYTES_MAX: usize = 107;

pub(super) fn parse(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let line = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = line.windows(2).position(|two| two == b"\r\n") else {
        return match line.len() < LINE_BYTES_MAX {
            true => Ok(None),
            false => Err(ProxyHeaderError::TooLong),
        };
    };
    let text = std::str::from_utf8(&line[START.len()..end]);
    let fields: Vec<_> = text
        .map_err(|_| ProxyHeaderError::Line)?
        .split(' ')
        .collect();
    let addresses = match fields[..] {
        ["TCP4", from, to, from_port, to_port] => Some((
            address::<Ipv4Addr>(from, from_port)?,
            address::<Ipv4Addr>(to, to_port)?,
        )),
        ["TCP6", from, to, from_port, to_port] => Some((
            address::<Ipv6Addr>(from, from_port)?,
            address::<Ipv6Addr>(to, to_port)?,
        )),
        ["UNKNOWN", ..] => None,
        _ => return Err(ProxyHeaderError::Line),
    };
    let header = ProxyHeader {
        addresses,
        ..ProxyHeader::default()
    };
    Ok(Some((header, end + 2)))
}

fn address<A: FromStr + Into<IpAddr>>(
    host: &str,
    port: &str,
) -> Result<SocketAddr, ProxyHeaderError> {
    let host: A = host.parse().map_err(|_| ProxyHeaderError::Line)?;
    let is_decimal = port.bytes().all(|byte| byte.is_ascii_digit());
    let has_zeros = port.len() > 1 && port.starts_with('0');
    let port = port.parse().ok().filter(|_| is_decimal && !has_zeros);
    Ok(SocketAddr::new(
        host.into(),
        port.ok_or(ProxyHeaderError::Line)?,
    ))
}
