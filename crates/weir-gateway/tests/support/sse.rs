//! A client of server-sent events.

use std::net::SocketAddr;
use std::net::TcpStream;

use serde_json::Value;

use super::http::Http;

/// A stream of events.
pub struct Events(Http);

/// Status, and the stream or the text of the refusal.
pub type Opened = Result<Events, (u16, String)>;

impl Events {
    /// Opens a stream.
    pub fn open(address: SocketAddr, query: &str) -> Self {
        Self::open_with(address, query, "").expect("a stream")
    }

    /// Opens a stream with more lines of the head.
    pub fn open_with(address: SocketAddr, query: &str, head: &str) -> Opened {
        let stream = TcpStream::connect(address).expect("a connection");
        Self::open_over(stream, query, head)
    }

    pub fn open_over(stream: TcpStream, query: &str, head: &str) -> Opened {
        let mut http = Http::over(stream);
        let request = format!("GET /sse?{query} HTTP/1.1\r\nHost: app.example\r\n{head}\r\n");
        http.send(request.as_bytes());
        http.read_head();
        let status = http.head.split(' ').nth(1).expect("a status");
        let status = status.parse().expect("a number");
        if status != 200 {
            return Err((status, http.body().trim_end().to_owned()));
        }
        assert!(http.head.contains("Content-Type: text/event-stream\r\n"));
        let first = http.block();
        assert!(first.expect("a block").starts_with("retry: "));
        Ok(Self(http))
    }

    pub fn head(&self) -> &str {
        &self.0.head
    }

    /// Returns name and data of the next event; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let block = self.0.block()?;
            let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
            if let Some(event) = line("event: ") {
                let data = line("data: ").expect("data");
                let data = serde_json::from_str(data).expect("JSON");
                return Some((event.to_owned(), data));
            }
            assert_eq!(block, ":", "only a heartbeat has no name");
        }
    }

    /// Returns name, item and one value of the next event.
    pub fn value(&mut self, field: &str) -> (String, String, String) {
        let (event, data) = self.next().expect("one more event");
        let text = |value: &Value| value.as_str().unwrap_or("null").to_owned();
        (event, text(&data["item"]), text(&data["values"][field]))
    }

    /// Asserts name, item and one value of the next event.
    pub fn expect(&mut self, event: &str, item: &str, field: &str, value: &str) {
        let wanted = (event.to_owned(), item.to_owned(), value.to_owned());
        assert_eq!(self.value(field), wanted);
    }
}
