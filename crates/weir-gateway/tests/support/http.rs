//! A TLCP client over HTTP: sends requests and reads responses line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::TEST_TIMEOUT;

/// A persistent connection and its current response.
pub struct Http {
    stream: BufReader<TcpStream>,
    /// Header of the latest response.
    pub head: String,
    body: String,
    /// `true` after the end of the response.
    ended: bool,
}

impl Http {
    pub fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("a connection"))
    }

    pub fn over(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        Self {
            stream: BufReader::new(stream),
            head: String::new(),
            body: String::new(),
            ended: true,
        }
    }

    /// Sends one request and reads the header of its response.
    pub fn post(&mut self, name: &str, body: &str) -> &mut Self {
        let request = format!(
            "POST /lightstreamer/{name}.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nHost: \
             app.example\r\n\
             Origin: http://app.example\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(request.as_bytes());
        self.read_head();
        self
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let sent = self.stream.get_mut().write_all(bytes);
        sent.expect("the gateway reads");
    }

    pub fn read_head(&mut self) {
        assert!(self.ended, "a response is not complete: {:?}", self.body);
        self.head.clear();
        self.body.clear();
        self.ended = false;
        while !self.head.ends_with("\r\n\r\n") {
            let count = self.stream.read_line(&mut self.head).expect("a head");
            assert!(count > 0, "the connection was closed: {:?}", self.head);
        }
        let length = self.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            (name.eq_ignore_ascii_case("content-length")).then(|| value.parse::<usize>())
        });
        if let Some(length) = length {
            self.take(length.expect("a number"));
            self.ended = true;
        }
    }

    fn take(&mut self, bytes: usize) {
        let mut piece = vec![0; bytes];
        self.stream
            .read_exact(&mut piece)
            .expect("a complete chunk");
        self.body += std::str::from_utf8(&piece).expect("text");
    }

    /// Reads one more chunk; returns `false` at the end of the response.
    fn more(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let mut size = String::new();
        self.stream.read_line(&mut size).expect("a chunk");
        let size = usize::from_str_radix(size.trim_end(), 16);
        let size = size.expect("another chunk or the final one");
        self.take(size);
        self.ended = size == 0;
        let mut end = String::new();
        self.stream.read_line(&mut end).expect("a chunk's end");
        assert_eq!(end, "\r\n");
        !self.ended
    }

    /// Returns the next line of the response that is not `PROBE`; `None` at its end.
    pub fn next(&mut self) -> Option<String> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            while let Some(end) = self.body.find("\r\n") {
                let line: String = self.body.drain(..end + 2).collect();
                if !line.starts_with("PROBE") {
                    return Some(line.trim_end().to_owned());
                }
            }
            assert!(Instant::now() < deadline, "only probes");
            if !self.more() {
                assert_eq!(self.body, "", "complete lines");
                return None;
            }
        }
    }

    /// Returns the body of a response with a length.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Returns the text before the next empty line; `None` at the end of the response.
    pub fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.body.find("\n\n") {
                let block: String = self.body.drain(..end + 2).collect();
                return Some(block.trim_end().to_owned());
            }
            if !self.more() {
                assert_eq!(self.body, "", "complete blocks");
                return None;
            }
        }
    }

    pub fn line(&mut self) -> String {
        self.next().expect("one more line")
    }

    /// Returns the remaining lines of the response.
    pub fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Closes the connection.
    pub fn cut(self) {
        drop(self);
    }
}

/// Sends one request on its own connection; returns header and lines of the response.
pub fn post(address: SocketAddr, name: &str, body: &str) -> (String, Vec<String>) {
    let mut http = Http::connect(address);
    let lines = http.post(name, body).rest();
    (http.head, lines)
}

/// Creates a session with a poll that ends at once, as SDKs do.
pub fn create_by_poll(address: SocketAddr) -> String {
    create_by_poll_with(address, "")
}

/// Creates a session with more parameters, see [`create_by_poll`].
pub fn create_by_poll_with(address: SocketAddr, more: &str) -> String {
    let body = format!(
        "LS_polling=true&LS_polling_millis=0&LS_idle_millis=0\
         &LS_adapter_set=KafkaConnector&LS_cid=t&LS_cause=api{more}"
    );
    let (_, lines) = post(address, "create_session", &body);
    assert_eq!(lines.last().map(String::as_str), Some("LOOP,0"));
    let id = lines[0].split(',').nth(1).expect("an id");
    assert_eq!(lines[0], format!("CONOK,{id},50000,0,*"));
    id.to_owned()
}
