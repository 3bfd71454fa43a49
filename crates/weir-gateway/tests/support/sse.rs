//! A client of server-sent events.

use std::net::SocketAddr;
use std::net::TcpStream;

use serde_json::Value;

use super::http::Http;

/// A stream of events.
pub struct Events {
    http: Http,
    /// Id of the last event; empty before the first one.
    pub id: String,
}

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
        let id = String::new();
        Ok(Self { http, id })
    }

    pub fn head(&self) -> &str {
        &self.http.head
    }

    /// Opens a stream that continues after the event with an id.
    pub fn resume(address: SocketAddr, query: &str, id: &str) -> Self {
        let opened = Self::open_with(address, query, &format!("Last-Event-ID: {id}\r\n"));
        opened.expect("a stream")
    }

    /// Returns name and data of the next event; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(event) = self.block()? {
                return Some(event);
            }
        }
    }

    /// Returns the id that is sent without an event.
    pub fn next_id(&mut self) -> String {
        loop {
            match self.block().expect("an open stream") {
                Some(event) => panic!("an event before the id: {event:?}"),
                None if self.id.is_empty() => {}
                None => return self.id.clone(),
            }
        }
    }

    /// Reads a block of lines and returns its event, if it is one.
    fn block(&mut self) -> Option<Option<(String, Value)>> {
        let block = self.http.block()?;
        let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        let id = line("id: ").map(str::to_owned);
        let event = line("event: ").map(|event| {
            let data = line("data: ").expect("data");
            let data = serde_json::from_str(data).expect("JSON");
            (event.to_owned(), data)
        });
        assert!(id.is_some() || event.is_some() || block == ":", "{block}");
        if let Some(id) = id {
            self.id = id;
        }
        Some(event)
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
