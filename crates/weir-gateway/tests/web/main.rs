//! The gateway's web-facing parts: TLS, origins and limits, metrics and dashboard. The tests need
//! no broker; the gateways wait for one that never becomes available.

mod certificates;
mod guard;
mod pages;
#[path = "../support/signer.rs"]
mod signer;
mod tls;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};
use weir_gateway::config::CliOverrides;
use weir_gateway::{Gateway, GatewayConfig, GatewayError};
use weir_mapping::ParseOptions;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A `gateway.toml` in its own directory.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Loads a configuration with these lines before a connection with unreachable brokers.
    fn load(&self, lines: &str) -> Result<GatewayConfig, GatewayError> {
        let text = format!(
            "drain_timeout_ms = 200\nevent_loop_sessions = 1\n{lines}\n\
             [connection.QuickStart]\nbootstrap.servers = \"127.0.0.1:1\"\n\
             item-template.ltest = \"ltest-#{{key=KEY}}\"\nmap.LTest.to = \"item-template.ltest\"\n\
             field.value = \"#{{VALUE}}\"\n"
        );
        let file = self.path("gateway.toml");
        std::fs::write(&file, text).expect("a file");
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let overrides = CliOverrides {
            listen: any,
            admin: any,
            event_loops: Some(2),
            ..CliOverrides::default()
        };
        GatewayConfig::load(None, Some(&file), &overrides, ParseOptions::default())
    }

    fn start(&self, lines: &str) -> Gateway {
        Gateway::start(self.load(lines).expect("a valid configuration")).expect("a gateway")
    }
}

/// Returns the path of a fixture of `weir-net`.
fn fixture(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-net/tests/tls");
    tests.join(name)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a timeout");
    stream
}

/// Sends one request with these header lines; returns status, header and body of the response.
fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String, String) {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status");
    (
        status.parse().expect("a number"),
        head.to_ascii_lowercase(),
        body.to_owned(),
    )
}

/// Opens a TLCP WebSocket over any byte stream; returns the HTTP status if it is rejected.
fn upgrade<S: Read + Write>(stream: S, origin: Option<&str>) -> Result<WebSocket<S>, u16> {
    let mut request = "ws://localhost/lightstreamer"
        .into_client_request()
        .expect("a request");
    let headers = request.headers_mut();
    let protocol = HeaderValue::from_static("TLCP-2.5.0.lightstreamer.com");
    headers.insert("Sec-WebSocket-Protocol", protocol);
    if let Some(origin) = origin {
        headers.insert("Origin", HeaderValue::from_str(origin).expect("a value"));
    }
    match tungstenite::client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
            Err(response.status().as_u16())
        }
        Err(error) => panic!("{error}"),
    }
}

const CREATE: &str =
    "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=test&LS_send_sync=false";

/// Sends a message; returns the first response line that starts with `begin`.
fn exchange<S: Read + Write>(socket: &mut WebSocket<S>, text: &str, begin: &str) -> String {
    socket.send(Message::text(text)).expect("the gateway reads");
    loop {
        if let Message::Text(lines) = socket.read().expect("a response") {
            if let Some(line) = lines.lines().find(|line| line.starts_with(begin)) {
                return line.to_owned();
            }
        }
    }
}

fn metrics(gateway: &Gateway) -> String {
    let (status, _, body) = get(gateway.admin_address(), "/metrics", "");
    assert_eq!(status, 200);
    body
}

/// Waits until the metrics contain a line.
fn await_metric(gateway: &Gateway, line: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let metrics = metrics(gateway);
        if metrics.lines().any(|one| one == line) {
            return;
        }
        assert!(Instant::now() < deadline, "no {line} in:\n{metrics}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
