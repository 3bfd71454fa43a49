//! HTTP over real sockets: answers that come later or in pieces, requests that wait behind them,
//! connections that move to another loop in the middle of a request.

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
    CloseReason, ConnId, ConnectionLimits, Detached, EventLoop, Listener, RequestOutcome,
    ServerHandler, ServerIo, ShardOptions,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// `/now` is answered at once, `/later` and `/stream` when the test says so, `/move` elsewhere.
#[derive(Default)]
struct TestHandler {
    last: Option<ConnId>,
    closed: Vec<u64>,
    other: Option<MailboxSender<TestEvent>>,
}

#[derive(Debug)]
enum TestEvent {
    /// Answers the request that came last.
    Answer(&'static str),
    /// A piece of the body that was begun last.
    Piece(&'static str),
    Finish,
    Abort,
    CloseIdle,
    StopAccepting,
    Adopt(Detached),
    /// Waits until a request has come that is to be answered later, or so many ends.
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
    type Mail = TestEvent;

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
            path => return RequestOutcome::Reply(Response::text(200, format!("{path} {body}"))),
        }
        RequestOutcome::Later
    }

    fn on_message(&mut self, _io: &mut ServerIo, _conn: ConnId, _text: &str) {}

    fn on_closed(&mut self, _io: &mut ServerIo, _conn: ConnId, tag: u64, _reason: CloseReason) {
        self.closed.push(tag);
    }

    fn on_timer(&mut self, _io: &mut ServerIo, _token: u64) {}

    fn on_room(&mut self, _io: &mut ServerIo, _conn: ConnId, _tag: u64) {}

    fn on_detached(&mut self, _io: &mut ServerIo, connection: Detached) {
        let other = self.other.as_ref().expect("a place to go");
        other
            .post(TestEvent::Adopt(connection), TEST_TIMEOUT)
            .expect("room");
    }

    fn on_mail(&mut self, io: &mut ServerIo, mail: TestEvent) {
        let last = self.last;
        let last = || last.expect("a request");
        match mail {
            TestEvent::Answer(text) => io.reply(last(), &Response::text(200, text)),
            TestEvent::Piece(text) => assert!(io.send(last(), Self::chunk(text))),
            TestEvent::Finish => {
                io.set_tag(last(), 0);
                io.finish(last());
            }
            TestEvent::Abort => io.close(last(), None, true),
            TestEvent::CloseIdle => io.close_idle(),
            TestEvent::StopAccepting => io.stop_accepting(),
            TestEvent::Adopt(detached) => {
                let conn = io.adopt(detached).expect("an open connection");
                io.reply(conn, &Response::text(200, "moved"));
            }
            TestEvent::Report(sender) => {
                let report = (self.last.is_some(), self.closed.clone());
                sender.send(report).expect("a listener");
            }
            TestEvent::Stop => io.stop(),
        }
    }

    fn on_turn(&mut self, _io: &mut ServerIo) {}
}

struct Server {
    address: SocketAddr,
    mail: MailboxSender<TestEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(limits: ConnectionLimits, other: Option<&Self>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = listen_shared(any, 1).expect("a port").remove(0);
        let address = socket.local_addr().expect("an address");
        let options = ShardOptions {
            listeners: vec![Listener { socket, tls: None }],
            limits,
            mail_capacity: 16,
            epoch: Instant::now(),
            heartbeat: Default::default(),
        };
        let desk = TestHandler {
            other: other.map(|other| other.mail.clone()),
            ..TestHandler::default()
        };
        let (shard, mail) = EventLoop::new(options, desk).expect("a loop");
        let thread = std::thread::spawn(move || shard.run().expect("an end in order"));
        Self {
            address,
            mail,
            thread: Some(thread),
        }
    }

    fn post(&self, mail: TestEvent) {
        self.mail
            .post(mail, TEST_TIMEOUT)
            .expect("a loop that runs");
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        stream
    }

    /// Waits for a report that is as wanted.
    fn wait(&self, wanted: impl Fn(bool, &[u64]) -> bool) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let (sender, receiver) = mpsc::channel();
            self.post(TestEvent::Report(sender));
            let (asked, closed) = receiver.recv_timeout(TEST_TIMEOUT).expect("a report");
            if wanted(asked, &closed) {
                return;
            }
            assert!(Instant::now() < deadline, "{asked} {closed:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.mail.post(TestEvent::Stop, TEST_TIMEOUT);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the loop panicked"
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
        stream.read_exact(&mut byte).expect("more of the answer");
        text.push(byte[0]);
    }
    String::from_utf8(text).expect("text")
}

fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an end");
    text
}

#[test]
fn requests_wait_for_the_answer_before_them() {
    let server = Server::start(ConnectionLimits::default(), None);
    let mut stream = server.connect();
    let requests = [get("/later"), get("/stream"), get("/whole"), last("/now")].concat();
    stream.write_all(requests.as_bytes()).expect("requests");
    server.wait(|asked, _| asked);
    server.post(TestEvent::Answer("at last"));
    assert!(read_until(&mut stream, "at last").starts_with("HTTP/1.1 200 OK"));
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
    assert_eq!(read_until(&mut stream, "first,\r\n"), "6\r\nfirst,\r\n");
    server.post(TestEvent::Piece("second"));
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
fn a_stream_whose_peer_leaves_is_reported_and_one_that_is_given_up_has_no_end() {
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
    assert_eq!(rest(stream), "", "the end of the body is missing");
}

#[test]
fn a_body_comes_in_chunks_or_bytes_of_known_number_within_limits() {
    let limits = ConnectionLimits {
        http: ParseLimits {
            head_bytes: 500,
            body_bytes: 20,
        },
        ..ConnectionLimits::default()
    };
    let server = Server::start(limits, None);
    let mut stream = server.connect();
    let chunked = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    for byte in chunked.as_bytes() {
        stream.write_all(&[*byte]).expect("the server reads");
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
        stream
            .write_all(request.as_bytes())
            .expect("the server reads");
        let answer = rest(stream);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
}

#[test]
fn what_waits_behind_a_stream_is_limited() {
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
    // It is cut off on the way, with or without an error that the writer sees.
    let _ = (0..200).try_for_each(|_| stream.write_all(get("/now").as_bytes()));
    server.wait(|_, closed| closed == [7]);
}

#[test]
fn a_request_moves_to_another_loop_and_is_answered_there() {
    let there = Server::start(ConnectionLimits::default(), None);
    let here = Server::start(ConnectionLimits::default(), Some(&there));
    let mut stream = here.connect();
    let requests = [get("/now"), get("/move"), last("/now")].concat();
    stream.write_all(requests.as_bytes()).expect("requests");
    let answers = rest(stream);
    assert!(answers.contains("/now HTTP/1.1 200 OK"), "{answers}");
    assert!(answers.contains("movedHTTP/1.1 200 OK"), "{answers}");
    assert!(answers.ends_with("/now "), "{answers}");
}

#[test]
fn a_loop_that_ends_closes_its_doors_and_those_who_wait_for_nothing() {
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
        assert!(Instant::now() < deadline, "somebody still listens");
    }
    server.post(TestEvent::Piece("second"));
    assert_eq!(read_until(&mut busy, "second\r\n"), "6\r\nsecond\r\n");
}
