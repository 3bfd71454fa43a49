//! Calls of session administration on the admin port: tokens, delays, streams.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use prometheus_client::registry::Registry;
use weir_net::admin::dashboard::{Dashboard, DashboardLayout, DashboardSource};
use weir_net::admin::{
    AdminConfig, AdminOptions, AdminPages, AdminServer, ApiCall, Page, SessionsToken,
};
use weir_net::http1::Response;
use weir_net::watchdog::{Watchdog, WatchdogConfig, join_until};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

struct Pages {
    denied: Arc<AtomicUsize>,
    lines: Receiver<String>,
}

impl AdminPages for Pages {
    fn readiness(&self) -> (bool, String) {
        (true, "ready\n".to_owned())
    }

    fn call(&mut self, call: &ApiCall<'_>) -> Option<Page> {
        match call.path {
            "/admin/v1/echo" => {
                let body = String::from_utf8_lossy(call.body);
                let text = format!("{} {} {body}", call.method, call.query);
                Some(Page::Deferred(Box::new(move || Response::text(200, text))))
            }
            "/admin/v1/lines" => {
                let lines = self.lines.clone();
                Some(Page::Stream(Box::new(move |stream| {
                    while let (Ok(line), false) = (lines.recv(), stream.is_closed()) {
                        stream.send(format!("{line}\n").into_bytes());
                    }
                })))
            }
            _ => None,
        }
    }

    fn note_denied(&mut self, _call: &ApiCall<'_>) {
        self.denied.fetch_add(1, Ordering::Relaxed);
    }
}

struct NoMetrics;

impl DashboardSource for NoMetrics {
    fn read(&mut self, _values: &mut Vec<f64>) {}

    fn facts(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}

fn admin(token: Option<&str>, pages: Pages) -> AdminServer {
    let watchdog = Watchdog::start(Vec::new(), WatchdogConfig::default()).expect("a thread");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = AdminConfig {
        listen: listener.local_addr().expect("an address"),
        token: Some("metrics".to_owned()),
        hosts: Vec::new(),
        sessions_token: token.map(SessionsToken::new),
        tls: None,
        files: None,
    };
    let layout = DashboardLayout {
        script: "",
        columns: Vec::new(),
        thread_groups: Vec::new(),
        thread_group: |name| name,
    };
    let options = AdminOptions {
        listener,
        config,
        watchdog_status: watchdog.watchdog_status(),
        registry: Registry::default(),
        dashboard: Dashboard::new(layout, NoMetrics),
        certificates: Vec::new(),
        draining: Arc::default(),
    };
    AdminServer::start(options, pages).expect("an admin port")
}

fn send(address: SocketAddr, request: &str, token: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let timeout = Some(TEST_TIMEOUT);
    stream.set_read_timeout(timeout).expect("a timeout");
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\
         Authorization: Bearer {token}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

fn call(address: SocketAddr, request: &str, token: &str, body: &str) -> String {
    let mut response = String::new();
    let mut stream = send(address, request, token, body);
    stream.read_to_string(&mut response).expect("a response");
    response
}

fn stop(server: AdminServer) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    assert_eq!(join_until(vec![server.stop()], deadline), [""; 0]);
}

#[test]
fn calls_need_their_own_token() {
    let denied = Arc::<AtomicUsize>::default();
    let pages = Pages {
        denied: Arc::clone(&denied),
        lines: bounded(0).1,
    };
    let server = admin(Some(TOKEN), pages);
    let address = server.address();
    let response = call(address, "POST /admin/v1/echo?a=1", TOKEN, "{}");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(response.ends_with("\r\n\r\nPOST a=1 {}"), "{response}");
    assert!(call(address, "GET /admin/v1/other", TOKEN, "").starts_with("HTTP/1.1 404 "));
    for token in [
        "metrics",
        "",
        &TOKEN[1..],
        "0123456789abcdef0123456789abcdeF",
    ] {
        let begin = Instant::now();
        let response = call(address, "GET /admin/v1/echo", token, "");
        assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
        assert!(begin.elapsed() >= Duration::from_millis(900), "no delay");
    }
    assert_eq!(denied.load(Ordering::Relaxed), 4);
    // The token of session administration does not open the metrics.
    assert!(call(address, "GET /metrics", TOKEN, "").starts_with("HTTP/1.1 401 "));
    assert!(call(address, "GET /metrics", "metrics", "").starts_with("HTTP/1.1 200 "));
    stop(server);
}

#[test]
fn without_token_there_are_no_calls() {
    let pages = Pages {
        denied: Arc::default(),
        lines: bounded(0).1,
    };
    let server = admin(None, pages);
    for token in ["metrics", "", TOKEN] {
        let response = call(server.address(), "GET /admin/v1/echo", token, "");
        assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
    }
    stop(server);
}

#[test]
fn lines_are_streamed_until_either_end_closes() {
    let (lines, receiver) = bounded(0);
    let pages = Pages {
        denied: Arc::default(),
        lines: receiver,
    };
    let server = admin(Some(TOKEN), pages);
    let stream = send(server.address(), "GET /admin/v1/lines", TOKEN, "");
    let mut reader = BufReader::new(stream);
    let mut read_until = |text: &str| {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let count = reader.read_line(&mut line).expect("a line");
            assert!(count > 0, "the response ended before {text}");
        }
    };
    for line in ["first", "second"] {
        lines.send(line.to_owned()).expect("a stream");
        read_until(line);
    }
    drop(reader);
    // The stream's thread ends after its client and drops its receiver.
    let deadline = Instant::now() + TEST_TIMEOUT;
    let next = || lines.send_timeout("more".to_owned(), Duration::from_millis(50));
    let has_ended = || next().is_err();
    while !has_ended() {
        assert!(Instant::now() < deadline, "the stream has not ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    stop(server);
}
