//! Raw sockets with a given source address, and the bytes that attackers send.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Flag that ends an attack.
pub(crate) type StopFlag = AtomicBool;

/// Returns `true` if the attack must continue.
pub(crate) fn runs(stop: &StopFlag) -> bool {
    !stop.load(Ordering::Relaxed)
}

/// Waits until the attack ends.
pub(crate) fn wait(stop: &StopFlag) {
    while runs(stop) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Connects to `address` from `source`.
///
/// # Errors
/// Fails if the target does not accept the connection.
pub(crate) fn connect(source: Ipv4Addr, address: &str) -> io::Result<TcpStream> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect_timeout(&address.into(), IO_TIMEOUT)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    // An attacker whose bytes are not read checks its stop flag regularly.
    stream.set_write_timeout(Some(WRITE_SLICE))?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    Ok(stream)
}

/// Writes all bytes. Returns `false` if the target closes the connection or the attack ends.
pub(crate) fn send(stream: &mut TcpStream, mut bytes: &[u8], stop: &StopFlag) -> bool {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return false,
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_timeout(&error) => {}
            Err(_) => return false,
        }
        if !runs(stop) {
            return false;
        }
    }
    true
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Opens a WebSocket that offers permessage-deflate.
pub(crate) fn websocket(source: Ipv4Addr, address: &str) -> io::Result<TcpStream> {
    let protocol = "Sec-WebSocket-Protocol: TLCP-2.5.0.lightstreamer.com\r\n";
    websocket_at(source, address, "/lightstreamer", protocol)
}

/// Opens a WebSocket at a path, with more lines of the request's head.
pub(crate) fn websocket_at(
    source: Ipv4Addr,
    address: &str,
    path: &str,
    head: &str,
) -> io::Result<TcpStream> {
    let mut stream = connect(source, address)?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n{head}\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if !head.starts_with(b"HTTP/1.1 101") {
        return Err(io::Error::other("not a WebSocket"));
    }
    Ok(stream)
}

/// Opens a WebSocket and a session. Later data of the target is not read.
pub(crate) fn session(source: Ipv4Addr, address: &str) -> io::Result<TcpStream> {
    let mut stream = websocket(source, address)?;
    let create = "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=attack&LS_send_sync=false";
    stream.write_all(&frame(TEXT, create.as_bytes()))?;
    let mut first = [0; 512];
    let _ = stream.read(&mut first)?;
    Ok(stream)
}

/// First byte of a final text frame.
pub(crate) const TEXT: u8 = 0x81;
/// First byte of a final, compressed text frame.
pub(crate) const COMPRESSED_TEXT: u8 = 0xc1;
/// First byte of a ping.
pub(crate) const PING: u8 = 0x89;

/// Returns a WebSocket frame as a client sends it, masked with zeros.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// Returns the request that subscribes to `items` in mode RAW.
pub(crate) fn subscription(number: usize, items: &[String]) -> Vec<u8> {
    let group = items.join("%20").replace('=', "%3D");
    let text = format!(
        "control\r\nLS_reqId={number}&LS_op=add&LS_subId={number}&LS_mode=RAW&LS_group={group}\
         &LS_schema=key%20value&LS_data_adapter=QuickStart&LS_ack=false"
    );
    frame(TEXT, text.as_bytes())
}

const IO_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_SLICE: Duration = Duration::from_millis(100);
