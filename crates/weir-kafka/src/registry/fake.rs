//! A fake registry for faults that a real one does not produce.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Response of the fake to a request.
#[derive(Debug, Clone)]
pub(super) enum Reaction {
    /// Sends a status and a body of type JSON.
    Respond(u16, String),
    /// Sends a status, a content type and a body.
    Typed(u16, &'static str, String),
    /// Sends these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Keeps the connection open without a response.
    Silence,
}

/// One request: method and path, the header `Authorization`, the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenRequest {
    pub(super) target: String,
    pub(super) authorization: String,
    pub(super) body: String,
}

type Script = dyn Fn(&SeenRequest) -> Reaction + Send + Sync;

/// A server on the loopback interface. Its threads end with the test process.
pub(super) struct FakeRegistry {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

impl FakeRegistry {
    pub(super) fn start(script: impl Fn(&SeenRequest) -> Reaction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (seen, script): (_, Arc<Script>) = (Arc::default(), Arc::new(script));
        let requests = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().flatten() {
                silent.extend(serve(stream, &*script, &requests));
            }
        });
        Self { address, seen }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

/// Serves one request per connection. Returns the connection if it stays open.
fn serve(stream: TcpStream, script: &Script, seen: &Mutex<Vec<SeenRequest>>) -> Option<TcpStream> {
    let request = read_request(&stream)?;
    seen.lock().expect("not poisoned").push(request.clone());
    let (status, kind, body) = match script(&request) {
        Reaction::Respond(status, body) => (status, "application/json", body),
        Reaction::Typed(status, kind, body) => (status, kind, body),
        Reaction::Bytes(bytes) => {
            let _ = (&stream).write_all(&bytes);
            return None;
        }
        Reaction::Silence => return Some(stream),
    };
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    let _ = (&stream).write_all(response.as_bytes());
    None
}

fn read_request(stream: &TcpStream) -> Option<SeenRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let (mut authorization, mut length) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => authorization = value.to_owned(),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(SeenRequest {
        target,
        authorization,
        body: String::from_utf8(body).ok()?,
    })
}
