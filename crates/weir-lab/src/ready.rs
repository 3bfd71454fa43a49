//! Readiness check: requests the list of brokers from a broker.
//!
//! Encodes Metadata version 1 itself and sends it over a plain socket, so that the lab needs no
//! Kafka client. All releases from 3.9 on support this version.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Returns the sorted node ids of the brokers that the broker at `host:port` lists.
pub(crate) fn listed_brokers(host: Ipv4Addr, port: u16) -> io::Result<Vec<i32>> {
    let mut socket = TcpStream::connect_timeout(&SocketAddr::from((host, port)), PROBE_TIMEOUT)?;
    socket.set_read_timeout(Some(PROBE_TIMEOUT))?;
    socket.set_write_timeout(Some(PROBE_TIMEOUT))?;
    socket.write_all(&request())?;
    let mut size = [0; 4];
    socket.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size);
    if size > RESPONSE_BYTES_MAX {
        return Err(malformed());
    }
    let mut response = vec![0; size as usize];
    socket.read_exact(&mut response)?;
    let mut nodes = parse(&response).ok_or_else(malformed)?;
    nodes.sort_unstable();
    Ok(nodes)
}

/// Returns `true` if a server accepts connections.
pub(crate) fn accepts_connections(host: Ipv4Addr, port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((host, port)), PROBE_TIMEOUT).is_ok()
}

/// Returns a Metadata request, version 1, without topics.
fn request() -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(METADATA.to_be_bytes());
    body.extend(1_i16.to_be_bytes());
    body.extend(CORRELATION_ID.to_be_bytes());
    body.extend(8_i16.to_be_bytes());
    body.extend(b"weir-lab");
    body.extend(0_i32.to_be_bytes());
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend(body);
    frame
}

/// Returns the broker ids of a response: correlation id, array of (id, host, port, rack), and more.
fn parse(mut response: &[u8]) -> Option<Vec<i32>> {
    if i32::from_be_bytes(take(&mut response)?) != CORRELATION_ID {
        return None;
    }
    let count = i32::from_be_bytes(take(&mut response)?);
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(i32::from_be_bytes(take(&mut response)?));
        skip_string(&mut response)?;
        let _port: [u8; 4] = take(&mut response)?;
        skip_string(&mut response)?;
    }
    Some(nodes)
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*head)
}

/// Skips a string; a length of -1 means null.
fn skip_string(from: &mut &[u8]) -> Option<()> {
    let length = i16::from_be_bytes(take(from)?).max(0);
    *from = from.get(usize::try_from(length).ok()?..)?;
    Some(())
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the response is not from a Kafka broker",
    )
}

const METADATA: i16 = 3;
const CORRELATION_ID: i32 = 7;
const RESPONSE_BYTES_MAX: u32 = 1 << 20;
/// Timeout of the check. A running broker responds within a few milliseconds.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_framed() {
        let frame = request();
        assert_eq!(frame.len(), 4 + 2 + 2 + 4 + 2 + 8 + 4);
        assert_eq!(frame[..4], 22_u32.to_be_bytes());
    }

    #[test]
    fn truncated_responses_are_rejected() {
        let mut response = CORRELATION_ID.to_be_bytes().to_vec();
        response.extend(2_i32.to_be_bytes());
        for (node, rack) in [(2_i32, None), (1, Some(b"r"))] {
            response.extend(node.to_be_bytes());
            response.extend(1_i16.to_be_bytes());
            response.extend(b"h");
            response.extend(9092_i32.to_be_bytes());
            response.extend(rack.map_or(-1_i16, |_| 1).to_be_bytes());
            response.extend(rack.into_iter().flatten());
        }
        assert_eq!(parse(&response), Some(vec![2, 1]));
        for length in 0..response.len() {
            assert_eq!(parse(&response[..length]), None);
        }
    }
}
