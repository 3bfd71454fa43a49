//! Coordinator and agents over real sockets, agents on threads, against a small floor server.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use super::*;
use crate::clients::{ClientProtocol, ClientsOptions};
use crate::delivery::DeliverySummary;
use crate::error::ErrorClass;
use crate::worker::EventSender;
use crate::worker::protocol::{LedgerEntry, Schedule, WorkerCommand};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// What each client is owed.
const RECORDS: u64 = 5;
const TOKEN: &str = "0123456789abcdef";

/// Serves `OK` and, until the client leaves, one record after the other of the key it asks for.
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
        let line = format!("U,1,1,{}|5.0.{seq}.6\r\n", key.trim_end());
        let mut frame = vec![0x81, u8::try_from(line.len()).unwrap()];
        frame.extend_from_slice(line.as_bytes());
        // Nothing comes from a client that stays.
        let stays = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        if stream.write_all(&frame).is_err() || !input.read(&mut [0]).is_err_and(stays) {
            return;
        }
    }
}

fn work(clients: usize) -> ClientsOptions {
    ClientsOptions {
        kind: ClientProtocol::Floor,
        keys: vec!["Apple".to_owned(), "Fig".to_owned()],
        fields: vec!["key".to_owned(), "weir".to_owned()],
        ..ClientsOptions::scenario_2(floor(), clients)
    }
}

/// A coordinator on a thread.
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
        let work = work(clients);
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

    /// An agent of the test: it has said hello and knows its work.
    fn impostor(&self) -> (BufReader<TcpStream>, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .write_all(&wire::line(&AgentHello::new(TOKEN)))
            .unwrap();
        let mut input = BufReader::new(stream);
        loop {
            let mut answer = String::new();
            input.read_line(&mut answer).unwrap();
            if serde_json::from_str::<CoordinatorMessage>(&answer).unwrap()
                != CoordinatorMessage::Clock
            {
                return (input, answer);
            }
            let reading = wire::line(&ClockReading { unix_ns: 0 });
            input.get_mut().write_all(&reading).unwrap();
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
        // The test may be over.
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

/// Everything counts.
fn always() -> WorkerCommand {
    WorkerCommand::Start(Schedule {
        start_unix_ns: 0,
        measure_from_unix_ns: 0,
        measure_until_unix_ns: u64::MAX,
        stop_unix_ns: u64::MAX,
    })
}

#[test]
fn three_agents_say_what_one_would() {
    let run = Run::start(3, 10, TEST_TIMEOUT);
    // Those who come after a command get it too.
    run.commands.send(always()).unwrap();
    let agents = [(); 3].map(|()| run.agent(TOKEN));
    assert_eq!(run.ready(), 10);
    run.commands.send(ledger()).unwrap();
    let summary = run.thread.join().unwrap().unwrap();
    assert_eq!((summary.clients, summary.lost), (10, 0));
    assert!(summary.settled, "{summary:?}");
    assert_eq!((summary.duplicated, summary.disconnects), (0, 0));
    assert!(summary.updates_total >= 10 * RECORDS, "{summary:?}");
    for agent in agents {
        agent.join().unwrap().unwrap();
    }
    let mut progress = None;
    for event in run.events.try_iter() {
        if let WorkerEvent::Progress(next) = event {
            progress = Some(next);
        }
    }
    let counters = progress.expect("a progress of all").counters;
    assert_eq!(counters["clients"], 10);
    assert_eq!(counters["updates"], summary.updates_total);
}

#[test]
fn shares_are_handed_out_once_each() {
    let run = Run::start(3, 10, TEST_TIMEOUT);
    let impostors = [(); 3].map(|()| run.impostor());
    let shares: BTreeSet<usize> = impostors
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
    drop(impostors);
    assert_eq!(run.error().fault(), ErrorClass::Instrument);
}

#[test]
fn a_lost_agent_ends_the_run_and_is_named() {
    let run = Run::start(2, 4, TEST_TIMEOUT);
    let (lost, _) = run.impostor();
    let other = run.agent(TOKEN);
    // The coordinator's own hello, then that of the other one, which has its work by then.
    for _ in 0..2 {
        run.hello();
    }
    drop(lost);
    let error = run.error();
    assert_eq!(error.fault(), ErrorClass::Instrument);
    let text = error.to_string();
    assert!(text.starts_with("agent 1 of 2 (pid "), "{text}");
    assert!(text.contains("was lost, so the run is not valid"), "{text}");
    // The other one notices and ends.
    other.join().unwrap().unwrap();
}

#[test]
fn an_agent_that_talks_nonsense_is_lost() {
    let run = Run::start(1, 1, TEST_TIMEOUT);
    let (mut agent, _) = run.impostor();
    agent
        .get_mut()
        .write_all(b"{\"event\":\"nonsense\"}\n")
        .unwrap();
    let text = run.error().to_string();
    assert!(text.contains("it sent a line that is no event"), "{text}");
}

#[test]
fn a_failing_agent_passes_its_fault_on() {
    let run = Run::start(1, 1, TEST_TIMEOUT);
    let (mut agent, _) = run.impostor();
    let failed = FailedEvent {
        event: WorkerEvent::Error {
            message: "no client could subscribe".to_owned(),
        },
        fault: ErrorClass::Target,
    };
    agent.get_mut().write_all(&wire::line(&failed)).unwrap();
    let error = run.error();
    assert_eq!(error.fault(), ErrorClass::Target);
    assert!(
        error
            .to_string()
            .ends_with("failed: no client could subscribe")
    );
}

#[test]
fn strangers_are_refused_and_told_why() {
    let run = Run::start(1, 1, TEST_TIMEOUT);
    let refused = run.agent("wrong").join().unwrap().unwrap_err();
    assert!(refused.to_string().contains("wrong token"), "{refused}");
    let long = [b'x'; 2 * wire::HELLO_BYTES_MAX];
    for nonsense in [b"GET / HTTP/1.1\r\n".as_slice(), b"\n", &long] {
        let mut stream = TcpStream::connect(run.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        // The other side may have hung up on the long one.
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
    stream.write_all(&wire::line(&other_version)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("use the same program"), "{answer}");
    // All the same the right one is welcome.
    let agent = run.agent(TOKEN);
    assert_eq!(run.ready(), 1);
    run.commands.send(WorkerCommand::Stop).unwrap();
    assert_eq!(run.thread.join().unwrap().unwrap().clients, 1);
    agent.join().unwrap().unwrap();
}

/// They come first, stay, and would keep every place of a listener that waits for each of them.
#[test]
fn silent_and_garbage_peers_do_not_keep_agents_out() {
    let run = Run::start(2, 4, Duration::from_secs(30));
    let connect = || TcpStream::connect(run.address).unwrap();
    let silent: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
    let garbage: Vec<TcpStream> = (0_u8..40)
        .map(|byte| {
            let mut stream = connect();
            // No line ends; the coordinator may have hung up.
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
    drop((silent, garbage));
}

#[test]
fn clocks_differ_only_beyond_the_error_of_the_comparison() {
    let difference = |ahead_ns, error_ns| listener::ClockDifference { ahead_ns, error_ns };
    assert!(difference(-7_000_000, 5_000_000).exceeds(1_000_000));
    assert!(!difference(-7_000_000, 6_000_000).exceeds(1_000_000));
    assert!(difference(2_000_000, 500_000).exceeds(1_000_000));
}

#[test]
fn agents_that_do_not_come_are_counted() {
    let run = Run::start(2, 2, Duration::from_millis(300));
    let refused = run.agent("wrong").join().unwrap();
    assert!(refused.is_err());
    let error = run.error().to_string();
    assert!(
        error.starts_with("0 of 2 agents came within 0 s"),
        "{error}"
    );
}

#[test]
fn a_run_that_is_stopped_before_it_began_has_nothing() {
    let run = Run::start(2, 2, TEST_TIMEOUT);
    run.commands.send(WorkerCommand::Stop).unwrap();
    assert_eq!(
        run.thread.join().unwrap().unwrap(),
        DeliverySummary::default()
    );
}
