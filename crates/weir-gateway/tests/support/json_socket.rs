//! A client of JSON over WebSocket.

use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::{HeaderName, HeaderValue};
use tungstenite::{HandshakeError, Message, WebSocket};

use super::TEST_TIMEOUT;

/// A WebSocket whose messages are JSON documents.
pub struct JsonSocket {
    pub socket: WebSocket<TcpStream>,
    /// Code of the close frame.
    pub close_code: Option<u16>,
    /// Id of the last event; empty before the first one.
    pub id: String,
}

impl JsonSocket {
    /// Opens a WebSocket, and subscribes as its first message says.
    pub fn open(address: SocketAddr, first: Value) -> Self {
        let mut socket = Self::connect(address, &[]).expect("a WebSocket");
        socket.send(first);
        socket.expect_open();
        socket
    }

    /// Opens a WebSocket for some items.
    pub fn follow(address: SocketAddr, items: &[&str]) -> Self {
        Self::open(address, json!({"type": "subscribe", "items": items}))
    }

    /// Opens a WebSocket with more headers; fails with the status.
    pub fn connect(address: SocketAddr, headers: &[(&str, &str)]) -> Result<Self, u16> {
        Self::connect_over(TcpStream::connect(address).expect("a connection"), headers)
    }

    pub fn connect_over(stream: TcpStream, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let timeout = stream.set_read_timeout(Some(TEST_TIMEOUT));
        timeout.expect("a timeout");
        let address = stream.peer_addr().expect("an open connection");
        let url = format!("ws://{address}/ws");
        let mut request = url.into_client_request().expect("a request");
        for (name, value) in headers {
            let name: HeaderName = name.parse().expect("a name");
            let value = HeaderValue::from_str(value).expect("a value");
            request.headers_mut().insert(name, value);
        }
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Self {
                socket,
                close_code: None,
                id: String::new(),
            }),
            Err(HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                Err(response.status().as_u16())
            }
            Err(error) => panic!("no response: {error}"),
        }
    }

    pub fn send(&mut self, document: Value) {
        let message = Message::text(document.to_string());
        self.socket.send(message).expect("the gateway reads");
    }

    /// Waits for the first id, which comes without an event of an item.
    pub fn wait_id(&mut self) {
        while self.id.is_empty() {
            let message = self.socket.read().expect("an open connection");
            let text = message.into_text().expect("a text");
            let event: Value = serde_json::from_str(&text).expect("one document");
            assert_eq!(event["event"], "heartbeat");
            event["id"].as_str().unwrap_or("").clone_into(&mut self.id);
        }
    }

    /// Returns the next event that is not a heartbeat; `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Value> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    let event: Value = serde_json::from_str(&text).expect("one document");
                    if let Some(id) = event["id"].as_str() {
                        id.clone_into(&mut self.id);
                    }
                    if event["event"] != "heartbeat" {
                        return Some(event);
                    }
                }
                Ok(Message::Close(frame)) => {
                    self.close_code = frame.map(|frame| frame.code.into());
                    return None;
                }
                Ok(_) => {}
                Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                    return None;
                }
                Err(error) => panic!("while waiting for an event: {error}"),
            }
        }
    }

    pub fn event(&mut self) -> Value {
        self.next().expect("one more event")
    }

    pub fn expect_open(&mut self) {
        assert_eq!(self.event(), json!({"event": "open"}));
    }

    /// Asserts that the next event is about an item.
    pub fn expect_about(&mut self, event: &str, item: &str) {
        assert_eq!(self.event(), json!({"event": event, "item": item}));
    }

    /// Asserts event, item and one value of the next event.
    pub fn expect(&mut self, name: &str, item: &str, field: &str, value: &str) {
        let event = self.event();
        let got = [&event["event"], &event["item"], &event["values"][field]];
        assert_eq!(got, [name, item, value], "{event}");
    }

    /// Asserts an `end` event, and the close frame after it.
    pub fn expect_end(&mut self, code: i32, text: &str, close_code: u16) {
        let event = self.event();
        assert_eq!(event["event"], "end", "{event}");
        assert_eq!(event["code"], code, "{event}");
        let message = event["message"].as_str().expect("a text");
        assert!(message.contains(text), "{event}");
        assert_eq!(self.next(), None);
        assert_eq!(self.close_code, Some(close_code));
    }
}
