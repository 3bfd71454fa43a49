//! The admin port over real sockets, next to an event loop that stalls or has no file descriptors
//! left.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use prometheus_client::registry::Registry;
use weir_net::MailboxSender;
use weir_net::admin::dashboard::{ColumnKind, Dashboard, DashboardLayout, DashboardSource};
use weir_net::admin::{AdminConfig, AdminOptions, AdminPages, AdminServer, Page};
use weir_net::http1::{HttpRequest, Response};
use weir_net::listener::listen_shared;
use weir_net::server::{
    CloseReason, ConnId, ConnectionLimits, Detached, EventLoop, EventLoopOptions, Listener,
    RequestOutcome, ServerHandler, ServerIo,
};
use weir_net::watchdog::{Heartbeat, Watchdog, WatchdogConfig, join_until};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Pages; `/slow` waits until it is released.
struct Pages {
    slow: Receiver<()>,
}

impl AdminPages for Pages {
    fn readiness(&self) -> (bool, String) {
        (true, "ready\n".to_owned())
    }

    fn page(&mut self, path: &str, query: &str) -> Option<Page> {
        match path {
            "/echo" => Some(Page::Ready(Response::text(200, query))),
            "/slow" => {
                let slow = self.slow.clone();
                Some(Page::Deferred(Box::new(move || {
                    let _ = slow.recv_timeout(TEST_TIMEOUT);
                    Response::text(200, "at last")
                })))
            }
            _ => None,
        }
    }
}

/// Figures with a gauge and a counter that grows by 10 with each reading.
struct Figures {
    counter: f64,
}

impl DashboardSource for Figures {
    fn read(&mut self, values: &mut Vec<f64>) {
        self.counter += 10.0;
        values.extend([7.0, self.counter, f64::NAN]);
    }

    fn facts(&self) -> serde_json::Map<String, serde_json::Value> {
        [("fact".to_owned(), "one".into())].into_iter().collect()
    }
}

fn dashboard() -> Dashboard {
    let columns = [
        ("gauge", ColumnKind::Now),
        ("rate", ColumnKind::PerSecond),
        ("unknown", ColumnKind::Now),
    ];
    let layout = DashboardLayout {
        script: "const PRODUCT = {};",
        columns: columns.map(|(name, kind)| (name.to_owned(), kind)).into(),
        thread_groups: vec!["all".to_owned()],
        thread_group: |_| "all",
    };
    Dashboard::new(layout, Figures { counter: 0.0 })
}

fn admin(slow: Receiver<()>, watchdog: &Watchdog) -> AdminServer {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = AdminConfig {
        listen: listener.local_addr().expect("an address"),
        token: None,
        hosts: vec!["gw.example".to_owned()],
        sessions_token: None,
        tls: None,
        files: None,
    };
    let options = AdminOptions {
        listener,
        config,
        watchdog_status: watchdog.watchdog_status(),
        registry: Registry::default(),
        dashboard: dashboard(),
        certificates: Vec::new(),
        draining: Arc::default(),
    };
    AdminServer::start(options, Pages { slow }).expect("an admin port")
}

#[test]
fn dashboard_shows_values_rates_and_facts() {
    let watchdog = Watchdog::start(Vec::new(), WatchdogConfig::default()).expect("a thread");
    let server = admin(bounded(0).1, &watchdog);
    let page = |path: &str| get(server.address(), path, "localhost");
    let body = |path: &str| {
        let response = page(path);
        let (_, body) = response.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str::<serde_json::Value>(body).expect("JSON")
    };
    wait_for("a second sample", || {
        body("/dashboard.json?after=0")["next"].as_u64() >= Some(2)
    });
    let response = body("/dashboard.json?after=1");
    assert_eq!(
        (&response["fact"], &response["draining"]),
        (&"one".into(), &false.into())
    );
    let columns = response["columns"].as_array().expect("columns");
    let names: Vec<_> = columns
        .iter()
        .filter_map(|name| name.as_str())
        .take(7)
        .collect();
    let expected = "seconds gauge rate unknown resident anonymous cpu.all";
    assert_eq!(names.join(" "), expected);
    assert_eq!(columns[7], "core.0");
    let row = response["rows"][0].as_array().expect("a row");
    assert_eq!(row.len(), columns.len());
    assert_eq!((&row[1], &row[3]), (&7.0.into(), &serde_json::Value::Null));
    // Two seconds between two samples.
    assert!(
        row[2]
            .as_f64()
            .is_some_and(|rate| (1.0..6.0).contains(&rate)),
        "{row:?}"
    );
    assert!(row[4].as_f64() >= row[5].as_f64() && row[6].is_number());
    assert!(page("/dashboard/product.js").contains("const PRODUCT"));
    let start = page("/");
    assert!(start.starts_with("HTTP/1.1 302 Found\r\n"), "{start}");
    assert!(start.contains("\r\nLocation: dashboard\r\n"), "{start}");
    assert!(page("/nosuch").contains("there are /dashboard"));
    assert!(page("/health/ready").ends_with("ready\n"));
    stop(server);
}

fn stop(server: AdminServer) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    assert_eq!(join_until(vec![server.stop()], deadline), [""; 0]);
}

fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let timeout = Some(TEST_TIMEOUT);
    stream.set_read_timeout(timeout).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

fn get(address: SocketAddr, path: &str, host: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let mut response = String::new();
    let mut stream = send(address, &request);
    stream.read_to_string(&mut response).expect("a response");
    response
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn pages_need_known_host_and_survive_slow_page() {
    let watchdog = Watchdog::start(Vec::new(), WatchdogConfig::default()).expect("a thread");
    let (release, slow) = bounded(0);
    let server = admin(slow, &watchdog);
    let address = server.address();
    let response = get(address, "/echo?a=1", &address.to_string());
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\na=1"), "{response}");
    for header in [
        "Content-Security-Policy: default-src 'none'",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Cache-Control: no-store",
    ] {
        assert!(response.contains(header), "{response}");
    }
    assert!(get(address, "/echo", "gw.example").starts_with("HTTP/1.1 200 "));
    for path in ["/echo", "/health/live", "/nowhere"] {
        let response = get(address, path, "evil.example");
        assert!(response.starts_with("HTTP/1.1 421 "), "{response}");
    }
    assert!(get(address, "/nowhere", "localhost").starts_with("HTTP/1.1 404 "));
    let mut waiting = send(
        address,
        "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    // Idle connections and incomplete requests delay no other.
    let _silent: Vec<_> = (0..40).map(|_| send(address, "GET /echo HT")).collect();
    assert!(get(address, "/health/live", "localhost").ends_with("alive\n"));
    assert!(get(address, "/slow", "localhost").starts_with("HTTP/1.1 503 "));
    release.send(()).expect("the slow page waits");
    let mut response = String::new();
    waiting.read_to_string(&mut response).expect("a response");
    assert!(response.ends_with("at last"), "{response}");
    stop(server);
}

#[test]
fn page_is_not_busy_after_its_response() {
    let watchdog = Watchdog::start(Vec::new(), WatchdogConfig::default()).expect("a thread");
    let (release, slow) = bounded(0);
    // Without a sender the page does not wait.
    drop(release);
    let server = admin(slow, &watchdog);
    // The thread of a page ends after its response has been sent: often enough, the next request
    // is faster.
    for _ in 0..1_000 {
        let response = get(server.address(), "/slow", "localhost");
        assert!(response.ends_with("at last"), "{response}");
    }
    stop(server);
}

/// Handler that can be blocked.
struct Data {
    blocker: Receiver<()>,
}

impl ServerHandler for Data {
    type Posted = ();

    fn on_request(
        &mut self,
        _io: &mut ServerIo,
        _conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome {
        if request.path == "/block" {
            let _ = self.blocker.recv_timeout(TEST_TIMEOUT);
        }
        RequestOutcome::Respond(Response::text(200, "data"))
    }

    fn on_posted(&mut self, io: &mut ServerIo, (): ()) {
        io.stop();
    }

    fn on_message(&mut self, _io: &mut ServerIo, _conn: ConnId, _text: &str) {}
    fn on_closed(&mut self, _io: &mut ServerIo, _conn: ConnId, _tag: u64, _reason: CloseReason) {}
    fn on_timer(&mut self, _io: &mut ServerIo, _token: u64) {}
    fn on_writable(&mut self, _io: &mut ServerIo, _conn: ConnId, _tag: u64) {}
    fn on_detached(&mut self, _io: &mut ServerIo, _connection: Detached) {}
    fn on_iteration_end(&mut self, _io: &mut ServerIo) {}
}

fn data(
    limits: ConnectionLimits,
    blocker: Receiver<()>,
) -> (
    SocketAddr,
    Arc<Heartbeat>,
    MailboxSender<()>,
    JoinHandle<()>,
) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let socket = listen_shared(any, 1).expect("a port").remove(0);
    let address = socket.local_addr().expect("an address");
    let epoch = Instant::now();
    let heartbeat = Arc::new(Heartbeat::new("loop-0", epoch, &[]));
    let options = EventLoopOptions {
        listeners: vec![Listener { socket, tls: None }],
        limits,
        mailbox_capacity: 16,
        heartbeat: Arc::clone(&heartbeat),
    };
    let (event_loop, mailbox) = EventLoop::new(options, Data { blocker }).expect("a loop");
    let thread = std::thread::Builder::new().name("loop-0".to_owned());
    let thread = thread
        .spawn(move || event_loop.run().expect("clean shutdown"))
        .expect("a thread");
    (address, heartbeat, mailbox, thread)
}

#[test]
fn stalled_event_loop_fails_liveness_without_blocking_shutdown() {
    let (release, blocker) = bounded(0);
    let (address, heartbeat, mailbox, thread) = data(ConnectionLimits::default(), blocker);
    let config = WatchdogConfig {
        stall_ms: 100,
        dead_ms: 300,
    };
    let watchdog = Watchdog::start(vec![heartbeat], config).expect("a thread");
    let server = admin(bounded(0).1, &watchdog);
    let live = || get(server.address(), "/health/live", "localhost");
    assert!(live().starts_with("HTTP/1.1 200 "));
    let mut blocked = send(
        address,
        "GET /block HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    wait_for("false liveness", || live().starts_with("HTTP/1.1 503 "));
    let status = watchdog.watchdog_status();
    assert_eq!(status.stalls(), 1);
    assert!(status.longest_ms() >= 300);
    // At shutdown, waiting for the stalled loop ends at the deadline.
    mailbox.post((), Duration::ZERO).expect("posted");
    let start = Instant::now();
    let (watcher, watched) = bounded::<()>(0);
    let waits = std::thread::Builder::new().name("loop-0".to_owned());
    let waits = waits
        .spawn(move || {
            thread.join().expect("clean shutdown");
            drop(watcher);
        })
        .expect("a thread");
    assert_eq!(
        join_until(vec![waits], start + Duration::from_millis(200)),
        ["loop-0"]
    );
    release.send(()).expect("the loop is blocked");
    let mut response = String::new();
    blocked.read_to_string(&mut response).expect("a response");
    wait_for("liveness", || live().starts_with("HTTP/1.1 200 "));
    assert!(watched.recv_timeout(TEST_TIMEOUT).is_err());
    assert_eq!(status.stalls(), 1);
    stop(server);
}

#[test]
fn clients_leave_file_descriptors_to_admin_port() {
    let watchdog = Watchdog::start(Vec::new(), WatchdogConfig::default()).expect("a thread");
    let server = admin(bounded(0).1, &watchdog);
    // Other tests of this program use file descriptors at the same time; the next free numbers are
    // around this one.
    let probe = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let limits = ConnectionLimits {
        descriptor_limit: probe.as_raw_fd() + 100,
        ..ConnectionLimits::default()
    };
    let (address, _, mailbox, thread) = data(limits, bounded(0).1);
    // Both ends of a connection use one file descriptor each.
    let clients: Vec<_> = (0..120)
        .map(|_| send(address, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"))
        .collect();
    let served = |mut stream: &TcpStream| {
        let mut byte = [0];
        let timeout = Some(Duration::from_millis(1));
        stream.set_read_timeout(timeout).expect("a timeout");
        matches!(stream.read(&mut byte), Ok(1))
    };
    assert!(get(server.address(), "/health/live", "localhost").ends_with("alive\n"));
    let last = clients.last().expect("clients");
    assert!(
        !served(last),
        "file descriptor of the last client above the limit"
    );
    drop(clients);
    // When file descriptors are free again, new connections are accepted after the pause.
    wait_for("a response", || {
        let stream = send(
            address,
            "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        );
        let mut response = String::new();
        (&stream)
            .read_to_string(&mut response)
            .is_ok_and(|_| response.ends_with("data"))
    });
    mailbox.post((), TEST_TIMEOUT).expect("posted");
    let deadline = Instant::now() + TEST_TIMEOUT;
    assert_eq!(join_until(vec![thread], deadline), [""; 0]);
    stop(server);
}
