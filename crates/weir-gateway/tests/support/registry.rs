//! A fake schema registry, for faults that a real one does not produce.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Response to the request for a schema.
#[derive(Debug, Clone)]
pub enum SchemaResponse {
    /// A status and a body.
    Status(u16, String),
    /// The connection stays open without a response.
    Silence,
    /// The response follows when the test sets another one.
    Held,
}

impl SchemaResponse {
    /// An Avro schema.
    pub fn avro(schema: &str) -> Self {
        let schema = schema.replace(['\n', '\\'], " ").replace('"', "\\\"");
        Self::Status(200, format!("{{\"schema\": \"{schema}\"}}"))
    }
}

/// Responses by id, and the requests so far.
#[derive(Default)]
struct FakeState {
    responses: Mutex<HashMap<i32, SchemaResponse>>,
    changed: Condvar,
    requests: Mutex<Vec<i32>>,
}

impl FakeState {
    fn responses(&self) -> MutexGuard<'_, HashMap<i32, SchemaResponse>> {
        self.responses.lock().expect("not poisoned")
    }

    /// Returns the response for an id, after the test has set it.
    fn response(&self, id: i32) -> Option<SchemaResponse> {
        let is_held = |all: &mut HashMap<i32, SchemaResponse>| {
            matches!(all.get(&id), Some(SchemaResponse::Held))
        };
        let all = self.changed.wait_while(self.responses(), is_held);
        all.expect("not poisoned").get(&id).cloned()
    }
}

/// A server whose responses the test changes. Unknown ids get status 404.
pub struct FakeRegistry {
    address: SocketAddr,
    state: Arc<FakeState>,
}

impl FakeRegistry {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(FakeState::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            let (silent, given) = (Arc::new(Mutex::new(Vec::new())), shared);
            for stream in listener.incoming().flatten() {
                let (silent, given) = (Arc::clone(&silent), Arc::clone(&given));
                std::thread::spawn(move || {
                    let open = serve(stream, &given);
                    silent.lock().expect("not poisoned").extend(open);
                });
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set(&self, id: i32, response: SchemaResponse) {
        self.state.responses().insert(id, response);
        self.state.changed.notify_all();
    }

    /// Returns the number of requests for an id.
    pub fn requests(&self, id: i32) -> usize {
        let requests = self.state.requests.lock().expect("not poisoned");
        requests.iter().filter(|one| **one == id).count()
    }
}

/// Serves one request per connection. Returns the connection if it stays open.
fn serve(stream: TcpStream, state: &FakeState) -> Option<TcpStream> {
    let mut lines = BufReader::new(&stream).lines();
    let target = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let path = target.split(' ').nth(1)?;
    let id = path.strip_prefix("/schemas/ids/")?.parse().ok()?;
    state.requests.lock().expect("not poisoned").push(id);
    let unknown = || SchemaResponse::Status(404, "{\"error_code\": 40403}".to_owned());
    let response = state.response(id).unwrap_or_else(unknown);
    let SchemaResponse::Status(status, body) = response else {
        return Some(stream);
    };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    // The gateway may have given up.
    let _ = (&stream).write_all(text.as_bytes());
    None
}
