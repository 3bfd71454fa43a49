//! The one question the lab asks a broker: which brokers do you know?
//!
//! Metadata version 1 by hand over a plain socket: every release from 3.9 on serves it, and the
//! lab needs no Kafka client for it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The node ids that the broker at `host:port` lists, sorted.
pub(crate) fn listed_brokers(host: Ipv4Addr, port: u16) -> io::Result<Vec<i32>> {
    let mut socket = TcpStream::connect_timeout(&SocketAddr::from((host, port)), PROBE_TIMEOUT)?;
    socket.set_read_timeout(Some(PROBE_TIMEOUT))?;
    socket.set_write_timeout(Some(PROBE_TIMEOUT))?;
    socket.write_all(&request())?;
    let mut size = [0; 4];
    socket.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size);
    if size > ANSWER_BYTES_MAX {
        return Err(malformed());
    }
    let mut answer = vec![0; size as usize];
    socket.read_exact(&mut answer)?;
    let mut nodes = parse(&answer).ok_or_else(malformed)?;
    nodes.sort_unstable();
    Ok(nodes)
}

/// A Metadata request, version 1, for no topic at all.
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

/// The broker ids of an answer: correlation id, array of (id, host, port, rack), and more.
fn parse(mut answer: &[u8]) -> Option<Vec<i32>> {
    if i32::from_be_bytes(take(&mut answer)?) != CORRELATION_ID {
        return None;
    }
    let count = i32::from_be_bytes(take(&mut answer)?);
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(i32::from_be_bytes(take(&mut answer)?));
        skip_string(&mut answer)?;
        let _port: [u8; 4] = take(&mut answer)?;
        skip_string(&mut answer)?;
    }
    Some(nodes)
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*head)
}

/// Skips a string; a length of -1 stands for null.
fn skip_string(from: &mut &[u8]) -> Option<()> {
    let length = i16::from_be_bytes(take(from)?).max(0);
    *from = from.get(usize::try_from(length).ok()?..)?;
    Some(())
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the answer is not a Kafka broker's",
    )
}

const METADATA: i16 = 3;
const CORRELATION_ID: i32 = 7;
const ANSWER_BYTES_MAX: u32 = 1 << 20;
/// A broker that is alive answers this in a few milliseconds.
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
    fn brokers_are_read_and_cut_answers_refused() {
        let mut answer = CORRELATION_ID.to_be_bytes().to_vec();
        answer.extend(2_i32.to_be_bytes());
        for (node, rack) in [(2_i32, None), (1, Some(b"r"))] {
            answer.extend(node.to_be_bytes());
            answer.extend(1_i16.to_be_bytes());
            answer.extend(b"h");
            answer.extend(9092_i32.to_be_bytes());
            answer.extend(rack.map_or(-1_i16, |_| 1).to_be_bytes());
            answer.extend(rack.into_iter().flatten());
        }
        assert_eq!(parse(&answer), Some(vec![2, 1]));
        for cut in 0..answer.len() {
            assert_eq!(parse(&answer[..cut]), None);
        }
    }
}
