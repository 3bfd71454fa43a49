//! An adapter that completes its handshake, and responds to a request with garbage.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;

use super::support::TEST_TIMEOUT;
use super::support::adapter::{AdapterEnv, BUSY};

const LOGIN: &str = "1|RAC|S|user|S|gw%20user|S|password|S|p%2Bw%7C1\r\n";
/// The client is refused for good.
const UNEXPECTED: &str = "CONERR,66,";
/// The longest line that is read has 1 MB.
const ENDLESS: usize = 2_000_000;

/// Garbage, the start of what the client gets, and whether the gateway closes the connection.
/// `ID` is that of the request.
const GARBAGE: [(&[u8], &str, bool); 9] = [
    (b"\xff\xfe\x00|NUS|\x80\r\n", BUSY, true),
    (b"ID|XYZ|V\r\n", BUSY, true),
    (b"ID|NSC|V\r\n", BUSY, true),
    (b"no separators\r\n", BUSY, true),
    (b"ID|NUS|D|NaN|B|1\r\n", UNEXPECTED, false),
    (b"ID|NUS|D|1\r\n", UNEXPECTED, false),
    (b"w999999999|NUS|D|0|B|0\r\n", BUSY, true),
    (b"ID|NUS|E|wrong\r\n", UNEXPECTED, false),
    (b"", BUSY, true),
];

fn read_line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

/// Lets a client ask, responds with each kind of garbage, and leaves.
pub(super) fn send_all(env: &AdapterEnv) {
    for (garbage, refusal, is_closed) in GARBAGE {
        let mut socket = TcpStream::connect(env.address()).expect("the gateway listens");
        socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a time");
        let mut lines = BufReader::new(socket.try_clone().expect("a descriptor"));
        socket.write_all(LOGIN.as_bytes()).expect("written");
        let init = read_line(&mut lines);
        let (id, _) = init.split_once("|MPI|").expect("the first request");
        let version = format!("{id}|MPI|S|ARI.version|S|1.9.1\r\n");
        socket.write_all(version.as_bytes()).expect("written");
        env.wait_ready();
        let mut client = env.request_session("anna");
        // Ends that earlier adapters did not get come first.
        let mut requests = std::iter::repeat_with(|| read_line(&mut lines));
        let user = requests.find(|line| line.contains("|NUS|"));
        let user = user.expect("endless lines");
        let (id, _) = user.split_once('|').expect("an ID");
        if garbage.is_empty() {
            // The gateway closes before it has read all of the line.
            let _ = socket.write_all(&vec![b'x'; ENDLESS]);
        } else {
            let text = replace_id(garbage, id);
            socket.write_all(&text).expect("written");
        }
        let line = client.line();
        let shown = String::from_utf8_lossy(garbage);
        assert!(line.starts_with(refusal), "{shown}: {line}");
        if is_closed {
            // The end, or a reset because of bytes that were not read.
            while lines.fill_buf().is_ok_and(|rest| !rest.is_empty()) {
                let length = lines.buffer().len();
                lines.consume(length);
            }
        }
        drop((socket, lines));
        env.wait_adapter_left();
    }
}

fn replace_id(garbage: &[u8], id: &str) -> Vec<u8> {
    match garbage.windows(3).position(|part| part == b"ID|") {
        None => garbage.to_vec(),
        Some(at) => [&garbage[..at], id.as_bytes(), &garbage[at + 2..]].concat(),
    }
}
