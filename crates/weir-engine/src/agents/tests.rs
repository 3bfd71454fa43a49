use std::io::Write as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::channel::Channel;
use super::frames::{AgentHello, DATA_BYTES_MAX, Frame};
use super::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

type Joined = Result<Vec<(AgentMachine, IpAddr)>, AgentsError>;

fn program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Starts a coordinator. Returns its address and the thread that waits for agents.
fn coordinator(names: &'static [&str], timeout: Duration) -> (SocketAddr, JoinHandle<Joined>) {
    let (sender, notes) = mpsc::channel();
    let thread = thread::spawn(move || {
        let options = AgentsOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            token: TOKEN.to_owned(),
            join_timeout: timeout,
        };
        let mut note = |text: &str| sender.send(text.to_owned()).unwrap_or_default();
        wait_for_agents(
            &options,
            names,
            &program(),
            &mut note,
            &AtomicBool::new(false),
        )
    });
    let note = notes.recv_timeout(TEST_TIMEOUT).unwrap();
    let address = note.strip_prefix("waiting for agents on ").unwrap();
    let address = address.split(": ").next().unwrap().parse().unwrap();
    (address, thread)
}

fn options(address: SocketAddr, token: &str, machine: &str) -> MachineAgentOptions {
    MachineAgentOptions {
        coordinator: address.to_string(),
        token: token.to_owned(),
        machine: machine.to_owned(),
        connect_timeout: TEST_TIMEOUT,
    }
}

fn agent(address: SocketAddr, machine: &str) -> JoinHandle<Result<(), MachineAgentError>> {
    let options = options(address, TOKEN, machine);
    thread::spawn(move || run_machine_agent(&options))
}

/// Connects with the key of the run.
fn connect(address: SocketAddr) -> Channel {
    let socket = TcpStream::connect(address).unwrap();
    let token = RunToken::new(TOKEN).unwrap();
    Channel::connect(socket, &token, Instant::now() + TEST_TIMEOUT).unwrap()
}

/// Joins as an agent of the test.
fn joined(address: SocketAddr, machine: &str) -> Channel {
    let channel = connect(address);
    let hello = AgentHello::new(TOKEN, machine, &program()).unwrap();
    let hello = serde_json::to_vec(&hello).unwrap();
    channel.send(FrameKind::Hello, 0, &hello).unwrap();
    let answer = channel.receive().unwrap().unwrap();
    assert_eq!(answer.kind, FrameKind::Accepted, "{answer:?}");
    channel
}

/// Returns the reason of a rejection.
fn rejection_of(channel: &Channel) -> String {
    let answer = channel.receive_until(Instant::now() + TEST_TIMEOUT);
    let Ok(Some(Frame {
        kind: FrameKind::Rejected,
        data,
        ..
    })) = answer
    else {
        panic!("{answer:?}");
    };
    String::from_utf8(data).unwrap()
}

#[test]
fn agents_join_despite_hostile_peers() {
    let (address, coordinator) = coordinator(&["a", "b"], TEST_TIMEOUT);
    let first = agent(address, "a");
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 100_000]] {
        // The coordinator may close the connection before it has all.
        let _ = TcpStream::connect(address).unwrap().write_all(bytes);
    }
    // The right key, but a wrong token, no hello, or a frame that is too long.
    let wrong = connect(address);
    let hello = AgentHello::new("another", "a", &program()).unwrap();
    let hello = serde_json::to_vec(&hello).unwrap();
    wrong.send(FrameKind::Hello, 0, &hello).unwrap();
    assert_eq!(rejection_of(&wrong), "wrong token");
    let early = connect(address);
    early.send(FrameKind::Output, 1, b"x").unwrap();
    assert!(!matches!(early.receive(), Ok(Some(_))));
    let long = connect(address);
    // Fails if the coordinator closes the connection at the first frame.
    let _ = long.send(FrameKind::Hello, 0, &vec![b'x'; DATA_BYTES_MAX + 1]);
    assert!(!matches!(long.receive(), Ok(Some(_))));
    let second = agent(address, "b");
    let machines = coordinator.join().unwrap().unwrap();
    assert_eq!(machines.len(), 2);
    drop(silent);
    drop(machines);
    for agent in [first, second] {
        agent.join().unwrap().unwrap();
    }
}

#[test]
fn agents_without_a_place_get_a_reason() {
    let (address, coordinator) = coordinator(&["a", "b"], TEST_TIMEOUT);
    let other = options(address, "another token, long enough", "a");
    let other = run_machine_agent(&other).unwrap_err().to_string();
    assert!(other.contains("it has another token"), "{other}");
    let short = run_machine_agent(&options(address, "short", "a"));
    assert!(matches!(short, Err(MachineAgentError::Token)));
    let unknown = run_machine_agent(&options(address, TOKEN, "c\n")).unwrap_err();
    let text = "the coordinator rejected this agent: no machine \"c\\n\": the run has a, b";
    assert_eq!(unknown.to_string(), text);
    let first = joined(address, "a");
    let again = run_machine_agent(&options(address, TOKEN, "a")).unwrap_err();
    assert!(again.to_string().contains("another agent has joined as a"));
    let changed = connect(address);
    let hello = AgentHello {
        sha256: "0".repeat(64),
        ..AgentHello::new(TOKEN, "b", &program()).unwrap()
    };
    let hello = serde_json::to_vec(&hello).unwrap();
    changed.send(FrameKind::Hello, 0, &hello).unwrap();
    assert!(rejection_of(&changed).starts_with("agent runs another program"));
    // An agent that is lost before all have joined ends the run.
    first.close();
    let error = coordinator.join().unwrap().unwrap_err().to_string();
    assert_eq!(error, "agent a was lost: its connection ended");
}

#[test]
fn missing_agents_are_named_with_rejected_peers() {
    let (address, coordinator) = coordinator(&["a", "b"], Duration::from_secs(2));
    let first = joined(address, "a");
    let unknown = run_machine_agent(&options(address, TOKEN, "c"));
    assert!(matches!(unknown, Err(MachineAgentError::Rejected(_))));
    let error = coordinator.join().unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with("no agent joined within 2 s for b (rejected: 127.0.0.1:"),
        "{error}"
    );
    // The agent that had joined gets the end of the run.
    let end = std::iter::from_fn(|| first.receive().unwrap());
    assert!(
        end.map(|frame| frame.kind)
            .any(|it| it == FrameKind::RunEnd)
    );
}

#[test]
fn lost_agent_ends_its_sessions_with_a_reason() {
    let (address, coordinator) = coordinator(&["a"], TEST_TIMEOUT);
    let channel = joined(address, "a");
    let (machine, _) = coordinator.join().unwrap().unwrap().pop().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = std::fs::File::create(&path).unwrap();
    let (session, mut output) = machine.open(Some(log)).unwrap();
    channel.send(FrameKind::Output, 1, b"line\n").unwrap();
    channel.send(FrameKind::Log, 1, b"logged\n").unwrap();
    // No heartbeat follows.
    let mut text = String::new();
    io::Read::read_to_string(&mut output, &mut text).unwrap();
    assert_eq!(text, "line\n");
    assert_eq!(session.exit_status().unwrap().code(), Some(255));
    assert_eq!(machine.lost().unwrap(), "no message for 10 s");
    let log = std::fs::read_to_string(&path).unwrap();
    assert_eq!(log, "logged\nagent a was lost: no message for 10 s\n");
    assert!(machine.open(None).is_err());
}

#[test]
fn lost_coordinator_ends_an_agent_with_an_error() {
    let (address, coordinator) = coordinator(&["a"], TEST_TIMEOUT);
    let agent = agent(address, "a");
    let (machine, _) = coordinator.join().unwrap().unwrap().pop().unwrap();
    machine.disconnect();
    let error = agent.join().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("all processes of this agent were ended"),
        "{error}"
    );
}

#[test]
fn both_ends_write_at_the_same_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let token = RunToken::new(TOKEN).unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    let server = thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        Channel::accept(socket, &token, deadline).unwrap()
    });
    let client = Arc::new(connect(address));
    let server = Arc::new(server.join().unwrap());
    let exchange = |channel: Arc<Channel>| {
        let writer = Arc::clone(&channel);
        let writing = thread::spawn(move || {
            let data: Vec<u8> = (0..3_000_000_u32).map(|it| it as u8).collect();
            writer.send_all(FrameKind::Output, 7, &data).unwrap();
        });
        thread::spawn(move || {
            let mut received = Vec::new();
            while received.len() < 3_000_000 {
                received.extend(channel.receive().unwrap().unwrap().data);
            }
            writing.join().unwrap();
            received
        })
    };
    let both = [exchange(client), exchange(server)];
    for received in both.map(|it| it.join().unwrap()) {
        let mut bytes = received.iter().enumerate();
        assert!(bytes.all(|(at, byte)| *byte == at as u8));
    }
}
