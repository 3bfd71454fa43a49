use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};

use bytes::BufMut;
use weir_security::Security;
use weir_wire::cluster::PartitionLeader;

use super::super::super::config::PauseScope;
use super::super::super::state::IngestState;
use super::*;
use crate::secure::BrokerSecurity;

const PAUSE: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(60);

/// Responds to requests: versions of Fetch are supported, and each fetch is empty and throttled.
fn serve(mut socket: TcpStream, fetched: &Sender<Instant>) -> std::io::Result<()> {
    loop {
        let mut size = [0; 4];
        socket.read_exact(&mut size)?;
        let mut request = vec![0; u32::from_be_bytes(size) as usize];
        socket.read_exact(&mut request)?;
        let mut body = request[4..8].to_vec();
        if request[..2] == (ApiKey::Fetch as i16).to_be_bytes() {
            // The test may have ended.
            let _ = fetched.send(Instant::now());
            body.put_i32(PAUSE.as_millis() as i32);
            body.put_slice(&[0; 2 + 4 + 4]); // error, session, topics
        } else {
            body.put_i16(0);
            body.put_i32(1);
            for number in [ApiKey::Fetch as i16, 0, fetch_request::NAME_VERSION] {
                body.put_i16(number);
            }
        }
        socket.write_all(&(body.len() as u32).to_be_bytes())?;
        socket.write_all(&body)?;
    }
}

/// Real brokers delay the next request of a throttled connection, so the client's own pause cannot
/// be seen there.
#[test]
fn throttled_client_pauses_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (fetched, fetches) = channel();
    let broker = std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a connection");
        serve(socket, &fetched)
    });
    let ingest = Arc::new(IngestState::new(&["t".to_owned()], PauseScope::Nothing));
    let security = Arc::new(BrokerSecurity::new(&Security::default()).expect("valid"));
    let shared = Arc::new(LeanShared::new(LeanOptions::default(), security, &ingest));
    let leader = PartitionLeader {
        partition: 0,
        leader: 1,
        epoch: 0,
    };
    shared.change(|state| {
        state.brokers.insert(1, ("127.0.0.1".to_owned(), port));
        state.table.update_topic("t", 0, &[leader]);
        state.table.assign("t", 0, 0);
    });
    start_all(&shared).expect("a thread");
    let first = fetches.recv_timeout(LIMIT).expect("a fetch");
    let second = fetches.recv_timeout(LIMIT).expect("another fetch");
    assert!(second - first >= PAUSE, "{:?}", second - first);
    let status = ingest.status();
    assert!(status.throttled >= 1);
    assert_eq!(status.throttle_time, PAUSE * status.throttled as u32);
    shared.stop();
    broker.join().expect("served").expect_err("closed");
}
