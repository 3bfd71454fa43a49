//! Tests the coordinator with agents in threads, over real sockets and against a small floor
//! server.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use super::*;
use weir_load::clients::{ClientProtocol, ClientsOptions, Scenario};
use weir_load::delivery::DeliverySummary;
use weir_load::error::ErrorClass;
use weir_load::worker::EventSender;
use weir_load::worker::protocol::{LedgerEntry, Schedule, WorkerCommand, WorkerEvent};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of records due to each client.
const RECORDS: u64 = 5;
const TOKEN: &str = "0123456789abcdef";

/// Starts a server that sends `OK` and then records of the requested key until the client closes.
fn floor() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    address.to_string()
}

fn serve(mut stream: TcpStream) {
    let mut input = BufReader::new(stream.try_clone().unwrap());
    let mut key = String::new();
    input.read_line(&mut key).unwrap();
    stream.write_all(b"OK\n").unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    for seq in 0_u32.. {
        let update = format!("U,1,1,{}|5.0.{seq}.6\r\n", key.trim_end());
        let mut frame = vec![0x81, u8::try_from(update.len()).unwrap()];
        frame.extend_from_slice(update.as_bytes());
        // An open client sends nothing.
        let is_open = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        if stream.write_all(&frame).is_err() || !input.read(&mut [0]).is_err_and(is_open) {
            return;
        }
    }
}

fn work(clients: usize) -> ClientsOptions {
    let subscribe = Scenario::Two.corrected();
    ClientsOptions {
        kind: ClientProtocol::Floor,
        keys: vec!["Apple".to_owned(), "Fig".to_owned()],
        fields: vec!["key".to_owned(), "weir".to_owned()],
        ..ClientsOptions::new(floor(), &subscribe, clients)
    }
}

/// Coordinator in a thread.
struct Run {
    address: SocketAddr,
    commands: SyncSender<WorkerCommand>,
    events: Receiver<WorkerEvent>,
    thread: JoinHandle<Result<DeliverySummary, AgentError>>,
}

impl Run {
    fn start(agents: usize, clients: usize, join_timeout: Duration) -> Self {
        let coordinator = AgentCoordinator::bind(CoordinatorOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            agents,
            token: TOKEN.to_owned(),
            engine: Engine::Manual,
            join_timeout,
        })
        .unwrap();
        let address = coordinator.address();
        let (commands, receiver) = mpsc::sync_channel(8);
        let (lines, events) = mpsc::channel();
        let link = CoordinatorChannel {
            commands: receiver,
            events: EventSender::new(LineLog(lines)),
        };
        let work = ClientsOptions {
            published_report: Some(Duration::from_secs(60)),
            ..work(clients)
        };
        let thread = thread::spawn(move || coordinator.run(&work, &link));
        Self {
            address,
            commands,
            events,
            thread,
        }
    }

    fn agent(&self, token: &str) -> JoinHandle<Result<(), AgentError>> {
        let options = AgentOptions {
            coordinator: self.address.to_string(),
            token: token.to_owned(),
            connect_timeout: TEST_TIMEOUT,
        };
        thread::spawn(move || run(&options))
    }

    /// Connects an agent of the test that has sent its hello and received its share.
    fn test_agent(&self) -> (BufReader<TcpStream>, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(&line(&AgentHello::new(TOKEN))).unwrap();
        let mut input = BufReader::new(stream);
        loop {
            let mut answer = String::new();
            input.read_line(&mut answer).unwrap();
            if serde_json::from_str::<CoordinatorMessage>(&answer).unwrap()
                != CoordinatorMessage::Clock
            {
                return (input, answer);
            }
            input.get_mut().write_all(&line(&0_u64)).unwrap();
        }
    }

    fn ready(&self) -> u64 {
        loop {
            if let WorkerEvent::Ready { connections, .. } =
                self.events.recv_timeout(TEST_TIMEOUT).unwrap()
            {
                return connections;
            }
        }
    }

    fn hello(&self) {
        while !matches!(
            self.events.recv_timeout(TEST_TIMEOUT).unwrap(),
            WorkerEvent::Hello { .. }
        ) {}
    }

    fn error(self) -> AgentError {
        self.thread.join().unwrap().unwrap_err()
    }
}

struct LineLog(mpsc::Sender<WorkerEvent>);

impl io::Write for LineLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The test may have ended.
        let _ = self.0.send(serde_json::from_slice(line)?);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ledger() -> WorkerCommand {
    let entry = |key: &str| LedgerEntry {
        key: key.to_owned(),
        producer: 0,
        first_seq: 0,
        last_seq: RECORDS - 1,
        missing: Vec::new(),
        last_due_unix_ns: 5,
    };
    WorkerCommand::Ledger {
        entries: vec![entry("Apple"), entry("Fig")],
    }
}

/// Returns a schedule whose measured window has no bounds.
fn always() -> WorkerCommand {
    WorkerCommand::Start(Schedule {
        start_unix_ns: 0,
        measure_from_unix_ns: 0,
        measure_until_unix_ns: u64::MAX,
        stop_unix_ns: u64::MAX,
    })
}

#[test]
fn merged_agents_equal_a_single_worker() {
    let run = Run::start(3, 10, TEST_TIMEOUT);
    // Agents that join after a command receive it, too.
    run.commands.send(always()).unwrap();
    let agents = [(); 3].map(|()| run.agent(TOKEN));
    assert_eq!(run.ready(), 10);
    run.commands.send(ledger()).unwrap();
    let summary = run.thread.join().unwrap().unwrap();
    assert_eq!((summary.clients, summary.counts.lost), (10, 0));
    assert!(summary.settled, "{summary:?}");
    assert_eq!((summary.counts.duplicated, summary.disconnects), (0, 0));
    assert!(summary.counts.updates_total >= 10 * RECORDS, "{summary:?}");
    for agent in agents {
        agent.join().unwrap().unwrap();
    }
    let (mut progress, mut reports) = (None, Vec::new());
    for event in run.events.try_iter() {
        match event {
            WorkerEvent::Progress(next) => progress = Some(next),
            WorkerEvent::Report { text } => reports.push(text),
            _ => {}
        }
    }
    // The records were due decades ago, beyond the range of that report.
    let [report] = &reports[..] else {
        panic!("{reports:?}");
    };
    let all = format!(" {} of 240000 ms and more", summary.counts.updates_total);
    assert!(report.contains(&all), "{report}");
    let counters = progress.expect("a merged progress").counters;
    assert_eq!(counters["clients"], 10);
    assert_eq!(counters["updates"], summary.counts.updates_total);
}

#[test]
fn shares_are_assigned_once() {
    let run = Run::start(3, 10, TEST_TIMEOUT);
    let agents = [(); 3].map(|()| run.test_agent());
    let shares: BTreeSet<usize> = agents
        .iter()
        .map(|(_, answer)| match serde_json::from_str(answer).unwrap() {
            CoordinatorMessage::Clients { share, options } => {
                assert_eq!((share.of, options.clients), (3, 10));
                share.index
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shares, BTreeSet::from([0, 1, 2]));
    drop(agents);
    assert_eq!(run.error().class(), ErrorClass::Tool);
}

#[test]
fn lost_agent_ends_the_run() {
    let run = Run::start(2, 4, TEST_TIMEOUT);
    let (lost, _) = run.test_agent();
    let other = run.agent(TOKEN);
    // The coordinator's own hello, then that of the other agent, which has its share by then.
    for _ in 0..2 {
        run.hello();
    }
    drop(lost);
    let error = run.error();
    assert_eq!(error.class(), ErrorClass::Tool);
    let text = error.to_string();
    assert!(text.starts_with("agent 1 of 2 (pid "), "{text}");
    assert!(text.contains("was lost, so the run is not valid"), "{text}");
    // The other agent detects the closed connection and ends.
    other.join().unwrap().unwrap();
}

#[test]
fn agent_with_invalid_event_is_lost() {
    let run = Run::start(1, 1, TEST_TIMEOUT);
    let (mut agent, _) = run.test_agent();
    agent
        .get_mut()
        .write_all(b"{\"event\":\"nonsense\"}\n")
        .unwrap();
    let text = run.error().to_string();
    assert!(text.contains("it sent an invalid event"), "{text}");
}

#[test]
fn failing_agent_reports_its_error_class() {
    let run = Run::start(1, 1, TEST_TIMEOUT);
    let (mut agent, _) = run.test_agent();
    let failed = WorkerEvent::Error {
        message: "no client could subscribe".to_owned(),
        fault: Some(ErrorClass::Target),
    };
    agent.get_mut().write_all(&line(&failed)).unwrap();
    let error = run.error();
    assert_eq!(error.class(), ErrorClass::Target);
    assert!(
        error
            .to_string()
            .ends_with("failed: no client could subscribe")
    );
}

#[test]
fn invalid_token_is_rejected_with_reason() {
    let run = Run::start(1, 1, TEST_TIMEOUT);
    let rejected = run.agent("wrong").join().unwrap().unwrap_err();
    assert!(rejected.to_string().contains("wrong token"), "{rejected}");
    let long = [b'x'; 2 * listener::HELLO_BYTES_MAX];
    for nonsense in [b"GET / HTTP/1.1\r\n".as_slice(), b"\n", &long] {
        let mut stream = TcpStream::connect(run.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        // The coordinator may have closed the connection of the long one.
        let _ = stream.write_all(nonsense);
        let mut answer = String::new();
        match stream.read_to_string(&mut answer) {
            Ok(_) => assert!(answer.contains("no hello"), "{answer}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }
    let other_version = AgentHello {
        version: "0.0.0".to_owned(),
        ..AgentHello::new(TOKEN)
    };
    let mut stream = TcpStream::connect(run.address).unwrap();
    stream.write_all(&line(&other_version)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("use the same program"), "{answer}");
    // A valid agent can still join.
    let agent = run.agent(TOKEN);
    assert_eq!(run.ready(), 1);
    run.commands.send(WorkerCommand::Stop).unwrap();
    assert_eq!(run.thread.join().unwrap().unwrap().clients, 1);
    agent.join().unwrap().unwrap();
}

/// The peers connect first and would occupy all handshakes if the coordinator waited for them.
#[test]
fn idle_and_garbage_peers_do_not_block_agents() {
    let run = Run::start(2, 4, Duration::from_secs(30));
    let connect = || TcpStream::connect(run.address).unwrap();
    let idle: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
    let garbage: Vec<TcpStream> = (0_u8..40)
        .map(|byte| {
            let mut stream = connect();
            // No line ends; the coordinator may have closed the connection.
            let _ = stream.write_all(&[byte | 0x80; 100]);
            stream
        })
        .collect();
    let agents = [(); 2].map(|()| run.agent(TOKEN));
    assert_eq!(run.ready(), 4);
    run.commands.send(always()).unwrap();
    run.commands.send(ledger()).unwrap();
    assert_eq!(run.thread.join().unwrap().unwrap().clients, 4);
    for agent in agents {
        agent.join().unwrap().unwrap();
    }
    drop((idle, garbage));
}

#[test]
fn clock_difference_allows_for_comparison_error() {
    let difference = |ahead_ns, error_ns| listener::ClockDifference { ahead_ns, error_ns };
    assert!(difference(-7_000_000, 5_000_000).exceeds(1_000_000));
    assert!(!difference(-7_000_000, 6_000_000).exceeds(1_000_000));
    assert!(difference(2_000_000, 500_000).exceeds(1_000_000));
}

#[test]
fn missing_agents_are_counted() {
    let run = Run::start(2, 2, Duration::from_millis(300));
    let rejected = run.agent("wrong").join().unwrap();
    assert!(rejected.is_err());
    let error = run.error().to_string();
    assert!(
        error.starts_with("only 0 of 2 agents joined within 0 s"),
        "{error}"
    );
}

#[test]
fn run_stopped_before_start_is_empty() {
    let run = Run::start(2, 2, TEST_TIMEOUT);
    run.commands.send(WorkerCommand::Stop).unwrap();
    assert_eq!(
        run.thread.join().unwrap().unwrap(),
        DeliverySummary::default()
    );
}
