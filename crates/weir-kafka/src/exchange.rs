//! Requests over a blocking connection to one broker, next to those of librdkafka.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ResponseHeader;
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request};

use crate::wire::WireError;
use crate::wire::frame::KafkaFrameReader;
use crate::wire::header::write_request;

#[derive(Debug)]
pub(crate) struct BrokerStream {
    stream: TcpStream,
    correlation_id: i32,
}

impl BrokerStream {
    /// Connects to the first address of a host. `timeout` also bounds each later read and write.
    pub(crate) fn connect(host: &str, port: u16, timeout: Duration) -> std::io::Result<Self> {
        let address = (host, port).to_socket_addrs()?.next();
        let address = address.ok_or_else(|| Error::other("host name has no address"))?;
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            correlation_id: 0,
        })
    }

    /// Sends a request and returns the body of its response.
    pub(crate) fn exchange<R: Request>(
        &mut self,
        client_id: &str,
        version: i16,
        body: &R,
    ) -> std::io::Result<Bytes> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let (mut request, number) = (BytesMut::new(), self.correlation_id);
        write_request(&mut request, version, number, client_id, body).map_err(Error::other)?;
        self.stream.write_all(&request)?;
        body_of(
            self.read_frame()?,
            R::Response::header_version(version),
            number,
        )
    }

    fn read_frame(&mut self) -> std::io::Result<Bytes> {
        let mut frames = KafkaFrameReader::new(FRAME_BYTES_MAX);
        let mut buffer = vec![0; 16 << 10];
        let mut complete = None;
        loop {
            let count = self.stream.read(&mut buffer)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let fed = frames.feed::<WireError>(&buffer[..count], |frame| {
                complete = Some(Bytes::copy_from_slice(frame));
                Ok(())
            });
            fed.map_err(Error::other)?;
            if let Some(frame) = complete.take() {
                return Ok(frame);
            }
        }
    }
}

fn body_of(mut frame: Bytes, header_version: i16, correlation_id: i32) -> std::io::Result<Bytes> {
    let header = ResponseHeader::decode(&mut frame, header_version).map_err(Error::other)?;
    match header.correlation_id == correlation_id {
        true => Ok(frame),
        false => Err(Error::other("response to another request")),
    }
}

const FRAME_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_must_match_their_request() {
        let frame = Bytes::from_static(b"\0\0\0\x02\0body");
        assert_eq!(body_of(frame.clone(), 1, 2).expect("body"), b"body"[..]);
        assert!(body_of(frame, 1, 1).is_err());
        assert!(body_of(Bytes::from_static(b"\0\0\0"), 1, 0).is_err());
    }
}
