//! Requests to a server whose messages are JSON, and the meaning of its messages.

use memchr::memmem;
use serde_json::Value;
use weir_net::websocket::{self, Opcode, push_client_frame};
use weir_tlcp::text::push_request_value;

use super::members::MemberReader;
use super::{ITEM_PLACEHOLDER, JsonClients, JsonProtocol};
use crate::error::Result;

/// Message of a server for a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JsonEvent<'a> {
    /// The subscription has become active.
    Live,
    /// Values of an update.
    Update(&'a [u8]),
    /// The end of the subscription.
    End(String),
}

/// Requests and reader of all clients of a run.
#[derive(Debug)]
pub(crate) struct JsonMessages {
    clients: JsonClients,
    mask: [u8; 4],
    /// First request of a connection, by server, then by key.
    requests: Vec<Vec<u8>>,
    /// Message that requests the item, by key; empty if the connection does.
    subscribes: Vec<Vec<u8>>,
    reader: MemberReader,
}

impl JsonMessages {
    /// Prepares the requests to servers, given as values of the `Host` header with a path, for the
    /// items of all keys. `websocket_key` is that of all connections.
    pub(crate) fn new(
        clients: &JsonClients,
        servers: &[(String, String)],
        items: &[String],
        (websocket_key, mask): (&str, [u8; 4]),
        compression: bool,
    ) -> Result<Self> {
        let base = match clients.protocol {
            JsonProtocol::Centrifugo => "push.pub.data.",
            JsonProtocol::WebSocket | JsonProtocol::ServerSentEvents => "",
        };
        let request = |(host, path): &(String, String), item: &String| {
            let mut escaped = Vec::new();
            push_request_value(&mut escaped, item);
            let path = path.replace(ITEM_PLACEHOLDER, &String::from_utf8_lossy(&escaped));
            match clients.protocol {
                JsonProtocol::ServerSentEvents => event_request(host, &path),
                JsonProtocol::WebSocket | JsonProtocol::Centrifugo => {
                    let mut request = Vec::new();
                    let key = websocket_key;
                    websocket::client_request(&mut request, host, &path, key, "", compression);
                    request
                }
            }
        };
        let of_server = |server| items.iter().map(move |item| request(server, item));
        let subscribe = |item: &String| match (clients.protocol, &clients.subscribe) {
            (JsonProtocol::Centrifugo, _) => {
                let channel = Value::from(item.as_str());
                format!("{{\"id\":{SUBSCRIBE_ID},\"subscribe\":{{\"channel\":{channel}}}}}")
            }
            // The URL of an event stream names the item; servers read only the request.
            (JsonProtocol::ServerSentEvents, _) | (_, None) => String::new(),
            (_, Some(text)) => {
                let quoted = Value::from(item.as_str()).to_string();
                text.replace(ITEM_PLACEHOLDER, &quoted[1..quoted.len() - 1])
            }
        };
        Ok(Self {
            clients: clients.clone(),
            mask,
            requests: servers.iter().flat_map(of_server).collect(),
            subscribes: items.iter().map(|it| subscribe(it).into_bytes()).collect(),
            reader: MemberReader::new(base, &clients.members)?,
        })
    }

    /// Returns the first request of connection `conn` for the item of a key.
    pub(crate) fn request(&self, conn: usize, key: usize) -> &[u8] {
        let servers = self.requests.len() / self.subscribes.len();
        &self.requests[conn % servers * self.subscribes.len() + key]
    }

    /// Returns `true` if responses are streams of events instead of WebSockets.
    pub(crate) fn is_event_stream(&self) -> bool {
        self.clients.protocol == JsonProtocol::ServerSentEvents
    }

    /// Appends the messages for an open connection. Returns `true` if the subscription is active.
    pub(crate) fn opened(&self, key: usize, out: &mut Vec<u8>) -> bool {
        if self.clients.protocol == JsonProtocol::Centrifugo {
            self.send(
                format!("{{\"id\":{CONNECT_ID},\"connect\":{{}}}}").as_bytes(),
                out,
            );
            return false;
        }
        if !self.subscribes[key].is_empty() {
            self.send(&self.subscribes[key], out);
        }
        self.clients.live_when.is_none()
    }

    /// Reads a message for a client, whose subscription may be active, and appends replies.
    pub(crate) fn message(
        &mut self,
        (key, is_live): (usize, bool),
        message: &[u8],
        out: &mut Vec<u8>,
        sink: &mut dyn FnMut(JsonEvent<'_>),
    ) {
        if self.clients.protocol == JsonProtocol::Centrifugo {
            let lines = message.split(|byte| *byte == b'\n');
            for line in lines.filter(|line| !line.is_empty()) {
                self.command(key, line, out, sink);
            }
            return;
        }
        let confirmed = self.clients.live_when.as_deref();
        let confirms = |text: &str| memmem::find(message, text.as_bytes()).is_some();
        if !is_live && confirmed.is_some_and(confirms) {
            sink(JsonEvent::Live);
        }
        if let Some(line) = self.reader.read(message) {
            sink(JsonEvent::Update(line));
        }
    }

    /// Reads a reply or push of Centrifugo.
    fn command(
        &mut self,
        key: usize,
        line: &[u8],
        out: &mut Vec<u8>,
        sink: &mut dyn FnMut(JsonEvent<'_>),
    ) {
        if line == PING {
            return self.send(PING, out);
        }
        if let Some(line) = self.reader.read(line) {
            return sink(JsonEvent::Update(line));
        }
        let Ok(reply) = serde_json::from_slice::<Value>(line) else {
            return sink(JsonEvent::End("reply that is not JSON".to_owned()));
        };
        let (error, push) = (&reply["error"], &reply["push"]);
        if !error.is_null() {
            return sink(JsonEvent::End(format!("request refused: {error}")));
        }
        for end in ["disconnect", "unsubscribe"] {
            if !push[end].is_null() {
                return sink(JsonEvent::End(format!(
                    "{end} by the server: {}",
                    push[end]
                )));
            }
        }
        match reply["id"].as_u64() {
            Some(CONNECT_ID) => self.send(&self.subscribes[key], out),
            Some(SUBSCRIBE_ID) => sink(JsonEvent::Live),
            _ => {}
        }
    }

    fn send(&self, message: &[u8], out: &mut Vec<u8>) {
        push_client_frame(out, Opcode::Text, self.mask, message);
    }
}

fn event_request(host: &str, path: &str) -> Vec<u8> {
    let accept = "Accept: text/event-stream\r\nCache-Control: no-cache";
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{accept}\r\n\r\n").into_bytes()
}

const CONNECT_ID: u64 = 1;
const SUBSCRIBE_ID: u64 = 2;
/// Ping of Centrifugo and its response.
const PING: &[u8] = b"{}";

#[cfg(test)]
mod tests {
    use weir_net::websocket::{FrameEvent, FrameRole, WebSocketFrameReader};

    use super::*;

    fn clients(protocol: JsonProtocol) -> JsonClients {
        JsonClients {
            protocol,
            members: ["key", "weir"].map(str::to_owned).into(),
            subscribe: Some(r#"{"sub":"{item}"}"#.to_owned()),
            live_when: None,
            may_conflate: false,
        }
    }

    fn messages(clients: &JsonClients) -> JsonMessages {
        let servers = ["a:1", "b:2"].map(|host| (host.to_owned(), "/x?item={item}".to_owned()));
        let items = ["i-[k=1]", "\"2\""].map(str::to_owned);
        JsonMessages::new(clients, &servers, &items, ("key", [0; 4]), false).unwrap()
    }

    fn sent(out: &[u8]) -> String {
        let mut reader = WebSocketFrameReader::new(FrameRole::Server, 1000);
        match reader.read(out).unwrap().1 {
            Some(FrameEvent::Text(text)) => String::from_utf8(text.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns what a message means, and the reply to it.
    fn read(all: &mut JsonMessages, is_live: bool, message: &str) -> (Vec<String>, Vec<u8>) {
        let (mut found, mut out) = (Vec::new(), Vec::new());
        all.message((1, is_live), message.as_bytes(), &mut out, &mut |event| {
            found.push(match event {
                JsonEvent::Update(line) => String::from_utf8_lossy(line).into_owned(),
                other => format!("{other:?}"),
            });
        });
        (found, out)
    }

    #[test]
    fn requests_name_server_and_item() {
        let events = clients(JsonProtocol::ServerSentEvents);
        let events = messages(&events);
        let request = |conn, key| String::from_utf8_lossy(events.request(conn, key)).into_owned();
        assert!(request(0, 0).starts_with("GET /x?item=i-%5Bk%3D1%5D HTTP/1.1\r\nHost: a:1\r\n"));
        assert!(request(3, 1).starts_with("GET /x?item=%222%22 HTTP/1.1\r\nHost: b:2\r\n"));
        let mut socket = clients(JsonProtocol::WebSocket);
        let mut out = Vec::new();
        assert!(messages(&socket).opened(1, &mut out));
        assert_eq!(sent(&out), r#"{"sub":"\"2\""}"#);
        socket.live_when = Some("subscribed".to_owned());
        let mut all = messages(&socket);
        assert!(!all.opened(1, &mut Vec::new()));
        assert_eq!(
            read(&mut all, false, r#"{"ok":"no"}"#).0,
            Vec::<String>::new()
        );
        assert_eq!(read(&mut all, false, r#"{"ok":"subscribed"}"#).0, ["Live"]);
        let update = r#"{"weir":"1.0.0.2","key":"a"}"#;
        assert_eq!(read(&mut all, true, update).0, ["a|1.0.0.2"]);
    }

    #[test]
    fn centrifugo_subscribes_after_its_connection() {
        let centrifugo = clients(JsonProtocol::Centrifugo);
        let mut all = messages(&centrifugo);
        let mut out = Vec::new();
        assert!(!all.opened(1, &mut out));
        assert_eq!(sent(&out), r#"{"id":1,"connect":{}}"#);
        let (found, reply) = read(&mut all, false, r#"{"id":1,"connect":{"client":"c"}}"#);
        assert_eq!(found, Vec::<String>::new());
        assert_eq!(sent(&reply), r#"{"id":2,"subscribe":{"channel":"\"2\""}}"#);
        let push = r#"{"push":{"channel":"2","pub":{"data":{"key":"a","weir":"w"}}}}"#;
        let both = format!("{{\"id\":2,\"subscribe\":{{}}}}\n{push}\n");
        assert_eq!(read(&mut all, false, &both).0, ["Live", "a|w"]);
        assert_eq!(sent(&read(&mut all, true, "{}").1), "{}");
        for (message, reason) in [
            (r#"{"id":2,"error":{"code":103}}"#, "request refused"),
            (r#"{"push":{"disconnect":{"code":3000}}}"#, "disconnect by"),
            (r#"{"push":{"unsubscribe":{}}}"#, "unsubscribe by"),
            ("x", "not JSON"),
        ] {
            let (found, _) = read(&mut all, true, message);
            assert!(
                found[0].starts_with("End") && found[0].contains(reason),
                "{found:?}"
            );
        }
    }
}
