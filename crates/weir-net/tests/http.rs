//! HTTP over real sockets: deferred and chunked responses, pipelined requests, connections that
//! move to another event loop during a request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_net::MailboxSender;
use weir_net::http1::{HttpRequest, ParseLimits, Response, push_chunk};
use weir_net::listener::listen_shared;
use weir_net::server::{
    CloseReason, ConnId, ConnectionLimits, Detached, EventLoop, EventLoopOptions, Listener,
    RequestOutcome, ServerHandler, ServerIo,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Responds to `/now` at once, to `/later` and `/stream` when the test posts an event, and detaches
/// on `/move`.
#[derive(Default)]
struct TestHandler {
    last: Option<ConnId>,
    closed: Vec<u64>,
    other: Option<MailboxSender<TestEvent>>,
}

#[derive(Debug)]
enum TestEvent {
    /// Responds to the last deferred request.
    Respond(&'static str),
    /// Sends a chunk of the last started body.
    Chunk(&'static str),
    Finish,
    Abort,
    CloseIdle,
    StopAccepting,
    Adopt(Detached),
    /// Reports whether a request was deferred, and the tags of closed connections.
    Report(mpsc::Sender<(bool, Vec<u64>)>),
    Stop,
}

impl TestHandler {
    fn chunk(text: &str) -> Bytes {
        let mut chunk = Vec::new();
        push_chunk(&mut chunk, text.as_bytes());
        chunk.into()
    }
}

impl ServerHandler for TestHandler {
    type Posted = TestEvent;

    fn on_request(
        &mut self,
        io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome {
        let body = String::from_utf8_lossy(&request.body);
        match request.path {
            "/later" => self.last = Some(conn),
            "/stream" => {
                io.set_tag(conn, 7);
                io.begin_body(conn, &Response::text(200, ""));
                assert!(io.send(conn, Self::chunk("first,")));
                self.last = Some(conn);
            }
            "/whole" => {
                io.begin_body(conn, &Response::text(200, ""));
                assert!(io.send(conn, Self::chunk("whole")));
                io.finish(conn);
            }
            "/move" => io.detach(conn),
            path => return RequestOutcome::Respond(Response::text(200, format!("{path} {body}"))),
        }
        RequestOutcome::Defer
    }

    fn on_message(&mut self, _io: &mut ServerIo, _conn: ConnId, _text: &str) {}

    fn on_closed(&mut self, _io: &mut ServerIo, _conn: ConnId, tag: u64, _reason: CloseReason) {
        self.closed.push(tag);
    }

    fn on_timer(&mut self, _io: &mut ServerIo, _token: u64) {}

    fn on_writable(&mut self, _io: &mut ServerIo, _conn: ConnId, _tag: u64) {}

    fn on_detached(&mut self, _io: &mut ServerIo, connection: Detached) {
        let other = self.other.as_ref().expect("another server");
        other
            .post(TestEvent::Adopt(connection), TEST_TIMEOUT)
            .expect("posted");
    }

    fn on_posted(&mut self, io: &mut ServerIo, event: TestEvent) {
        let last = self.last;
        let last = || last.expect("a request");
        match event {
            TestEvent::Respond(text) => io.respond(last(), &Response::text(200, text)),
            TestEvent::Chunk(text) => assert!(io.send(last(), Self::chunk(text))),
            TestEvent::Finish => {
                io.set_tag(last(), 0);
                io.finish(last());
            }
            TestEvent::Abort => io.close(last(), None, true),
            TestEvent::CloseIdle => io.close_idle(),
            TestEvent::StopAccepting => io.stop_accepting(),
            TestEvent::Adopt(detached) => {
                let conn = io.adopt(detached).expect("an open connection");
                io.respond(conn, &Response::text(200, "moved"));
            }
            TestEvent::Report(sender) => {
                let report = (self.last.is_some(), self.closed.clone());
                sender.send(report).expect("a receiver");
            }
            TestEvent::Stop => io.stop(),
        }
    }

    fn on_iteration_end(&mut self, _io: &mut ServerIo) {}
}

struct Server {
    address: SocketAddr,
    mailbox: MailboxSender<TestEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(limits: ConnectionLimits, other: Option<&Self>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = listen_shared(any, 1).expect("a port").remove(0);
        let address = socket.local_addr().expect("an address");
        let options = EventLoopOptions {
            listeners: vec![Listener { socket, tls: None }],
            limits,
            mailbox_capacity: 16,
            heartbeat: Default::default(),
        };
        let handler = TestHandler {
            other: other.map(|other| other.mailbox.clone()),
            ..TestHandler::default()
        };
        let (event_loop, mailbox) = EventLoop::new(options, handler).expect("a loop");
        let thread = std::thread::spawn(move || event_loop.run().expect("clean shutdown"));
        Self {
            address,
            mailbox,
            thread: Some(thread),
        }
    }

    fn post(&self, event: TestEvent) {
        self.mailbox.post(event, TEST_TIMEOUT).expect("posted");
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        stream
    }

    /// Waits for a report that meets `condition`.
    fn wait(&self, condition: impl Fn(bool, &[u64]) -> bool) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let (sender, receiver) = mpsc::channel();
            self.post(TestEvent::Report(sender));
            let (deferred, closed) = receiver.recv_timeout(TEST_TIMEOUT).expect("a report");
            if condition(deferred, &closed) {
                return;
            }
            assert!(Instant::now() < deadline, "{deferred} {closed:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.mailbox.post(TestEvent::Stop, TEST_TIMEOUT);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the event loop panicked"
            );
        }
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

fn last(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("more of the response");
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .expect("end of the response");
    text
}

#[test]
fn requests_wait_for_previous_response() {
    let server = Server::start(ConnectionLimits::default(), None);
    let mut stream = server.connect();
    let requests = [get("/later"), get("/stream"), get("/whole"), last("/now")].concat();
    stream.write_all(requests.as_bytes()).expect("requests");
    server.wait(|deferred, _| deferred);
    server.post(TestEvent::Respond("at last"));
    assert!(read_until(&mut stream, "at last").starts_with("HTTP/1.1 200 OK"));
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
    assert_eq!(read_until(&mut stream, "first,\r\n"), "6\r\nfirst,\r\n");
    server.post(TestEvent::Chunk("second"));
    assert_eq!(read_until(&mut stream, "second\r\n"), "6\r\nsecond\r\n");
    server.post(TestEvent::Finish);
    assert_eq!(read_until(&mut stream, "0\r\n\r\n"), "0\r\n\r\n");
    let left = rest(stream);
    assert!(
        left.contains("\r\n\r\n5\r\nwhole\r\n0\r\n\r\nHTTP/1.1 200 OK"),
        "{left}"
    );
    assert!(left.ends_with("/now "), "{left}");
    server.wait(|_, closed| closed.is_empty());
}

#[test]
fn closed_and_aborted_streams_are_handled() {
    let server = Server::start(ConnectionLimits::default(), None);
    let mut stream = server.connect();
    stream
        .write_all(get("/stream").as_bytes())
        .expect("a request");
    read_until(&mut stream, "first,\r\n");
    drop(stream);
    server.wait(|_, closed| closed == [7]);

    let mut stream = server.connect();
    stream
        .write_all(get("/stream").as_bytes())
        .expect("a request");
    read_until(&mut stream, "first,\r\n");
    server.post(TestEvent::Abort);
    assert_eq!(rest(stream), "", "the body has no end");
}

#[test]
fn bodies_are_limited_with_chunks_or_length() {
    let limits = ConnectionLimits {
        http: ParseLimits {
            head_bytes: 500,
            body_bytes: 20,
        },
        ..ConnectionLimits::default()
    };
    let server = Server::start(limits, None);
    let mut stream = server.connect();
    let chunked = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    for byte in chunked.as_bytes() {
        stream.write_all(&[*byte]).expect("sent");
    }
    read_until(&mut stream, "/a abcde");
    stream.write_all(last("/b").as_bytes()).expect("a request");
    assert!(rest(stream).ends_with("/b "));
    for (request, status) in [
        (
            "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n",
            "413",
        ),
        (
            "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 21\r\n\r\n",
            "413",
        ),
        (
            "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
            "501",
        ),
    ] {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        let response = rest(stream);
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status}")),
            "{response}"
        );
    }
}

#[test]
fn pipelined_input_during_stream_is_limited() {
    let limits = ConnectionLimits {
        http: ParseLimits {
            head_bytes: 500,
            body_bytes: 20,
        },
        ..ConnectionLimits::default()
    };
    let server = Server::start(limits, None);
    let mut stream = server.connect();
    stream
        .write_all(get("/stream").as_bytes())
        .expect("a request");
    read_until(&mut stream, "first,\r\n");
    // The server closes the connection in between, so a write can fail.
    let _ = (0..200).try_for_each(|_| stream.write_all(get("/now").as_bytes()));
    server.wait(|_, closed| closed == [7]);
}

#[test]
fn detached_request_gets_response_from_other_loop() {
    let there = Server::start(ConnectionLimits::default(), None);
    let here = Server::start(ConnectionLimits::default(), Some(&there));
    let mut stream = here.connect();
    let requests = [get("/now"), get("/move"), last("/now")].concat();
    stream.write_all(requests.as_bytes()).expect("requests");
    let responses = rest(stream);
    assert!(responses.contains("/now HTTP/1.1 200 OK"), "{responses}");
    assert!(responses.contains("movedHTTP/1.1 200 OK"), "{responses}");
    assert!(responses.ends_with("/now "), "{responses}");
}

#[test]
fn shutdown_closes_listeners_and_idle_connections() {
    let server = Server::start(ConnectionLimits::default(), None);
    let mut idle = server.connect();
    idle.write_all(get("/now").as_bytes()).expect("a request");
    read_until(&mut idle, "/now ");
    let mut busy = server.connect();
    busy.write_all(get("/stream").as_bytes())
        .expect("a request");
    read_until(&mut busy, "first,\r\n");
    server.post(TestEvent::StopAccepting);
    server.post(TestEvent::CloseIdle);
    assert_eq!(rest(idle), "");
    let deadline = Instant::now() + TEST_TIMEOUT;
    while TcpStream::connect(server.address).is_ok() {
        assert!(Instant::now() < deadline, "the listener is still open");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.post(TestEvent::Chunk("second"));
    assert_eq!(read_until(&mut busy, "second\r\n"), "6\r\nsecond\r\n");
}
