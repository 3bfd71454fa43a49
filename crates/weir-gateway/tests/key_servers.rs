//! Hostile and faulty servers of keys: they cost no session, and no more than a bounded time and
//! memory.

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::identity::{KEYS, REFRESHES, config, create, fetch_often, issuer, token, with_key_id};
use support::{TEST_TIMEOUT, TestEnv, http, metric, wait_metric};

const ANY_ITEM: &str = "[[authorize]]\nname = \"all\"\nitems = [\"*\"]\n";

/// How a server answers.
#[derive(Debug, Clone)]
enum ServerAnswer {
    Document(Vec<u8>),
    Redirect(SocketAddr),
    /// Announces and sends 100 MB.
    Large,
    Endless,
    /// Sends a byte of a valid document every 200 ms.
    Drip(Vec<u8>),
    /// Sends nothing.
    Silent,
}

/// A web server with one answer for all requests.
struct KeyServer {
    address: SocketAddr,
    answer: Arc<Mutex<ServerAnswer>>,
    connections: Arc<AtomicUsize>,
}

impl KeyServer {
    fn start(answer: ServerAnswer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("a bound socket");
        let answer = Arc::new(Mutex::new(answer));
        let connections = Arc::new(AtomicUsize::new(0));
        let (current, count) = (Arc::clone(&answer), Arc::clone(&connections));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let answer = current.lock().expect("no thread panics with it").clone();
                thread::spawn(move || serve(stream, answer));
            }
        });
        Self {
            address,
            answer,
            connections,
        }
    }

    fn set(&self, answer: ServerAnswer) {
        *self.answer.lock().expect("no thread panics with it") = answer;
    }
}

/// Answers one request. Fails when the gateway has closed the connection.
fn serve(stream: TcpStream, answer: ServerAnswer) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        line.clear();
    }
    let mut stream = reader.into_inner();
    let _ = respond(&mut stream, answer);
}

fn respond(stream: &mut TcpStream, answer: ServerAnswer) -> std::io::Result<()> {
    let head = |length: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n{length}\r\n"
        )
    };
    let sized = |length: usize| head(&format!("Content-Length: {length}\r\n"));
    match answer {
        ServerAnswer::Document(bytes) => {
            stream.write_all(sized(bytes.len()).as_bytes())?;
            stream.write_all(&bytes)
        }
        ServerAnswer::Redirect(to) => write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: http://{to}/jwks\r\nContent-Length: 0\r\n\r\n"
        ),
        ServerAnswer::Large => {
            stream.write_all(sized(100 << 20).as_bytes())?;
            (0..100).try_for_each(|_| stream.write_all(&vec![b' '; 1 << 20]))
        }
        ServerAnswer::Endless => {
            stream.write_all(head("").as_bytes())?;
            loop {
                stream.write_all(&[b' '; 4096])?;
            }
        }
        ServerAnswer::Drip(bytes) => {
            stream.write_all(sized(bytes.len()).as_bytes())?;
            bytes.chunks(1).try_for_each(|byte| {
                thread::sleep(Duration::from_millis(200));
                stream.write_all(byte)
            })
        }
        ServerAnswer::Silent => {
            // Until the gateway gives up.
            std::io::copy(stream, &mut std::io::sink()).map(drop)
        }
    }
}

/// Returns the key set that an issuer publishes.
fn published(issuer: &str) -> Value {
    let address = issuer.strip_prefix("http://").expect("an address");
    let address: SocketAddr = address.parse().expect("an address");
    let request = "GET /jwks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (_, body) = http(address, request);
    serde_json::from_str(&body).expect("a key set")
}

#[test]
fn hostile_key_servers_change_nothing() {
    let Some(issuer) = issuer() else { return };
    let one = published(issuer.url());
    issuer.add_key("RS256").expect("a key");
    let two = published(issuer.url());
    let good = ServerAnswer::Document(one.to_string().into_bytes());
    let elsewhere = KeyServer::start(ServerAnswer::Document(two.to_string().into_bytes()));
    let server = KeyServer::start(good.clone());
    let env = TestEnv::new();
    let keys = format!("jwks_url = \"http://{}/jwks\"", server.address);
    let mut config = config(&env, issuer.url(), &keys, ANY_ITEM);
    fetch_often(&mut config);
    let gateway = env.ready(config);
    let token = token(&issuer, json!({}));

    let many = vec![two["keys"][1].clone(); 10_000];
    let mut bad_text = two.to_string().into_bytes();
    bad_text.insert(1, 0xff);
    let twice = two.to_string().replacen('{', "{\"keys\":[],", 1);
    for (name, answer) in [
        ("redirect", ServerAnswer::Redirect(elsewhere.address)),
        (
            "many keys",
            ServerAnswer::Document(json!({ "keys": many }).to_string().into_bytes()),
        ),
        ("no keys", ServerAnswer::Document(b"{\"keys\":[]}".to_vec())),
        ("not UTF-8", ServerAnswer::Document(bad_text)),
        (
            "duplicate member",
            ServerAnswer::Document(twice.into_bytes()),
        ),
        ("large", ServerAnswer::Large),
        ("endless", ServerAnswer::Endless),
        ("slow", ServerAnswer::Drip(two.to_string().into_bytes())),
        ("silent", ServerAnswer::Silent),
    ] {
        server.set(answer);
        let before = metric(&gateway, REFRESHES);
        let connections = server.connections.load(Ordering::Relaxed);
        // One fetch may have begun with the answer before.
        wait_until(name, || {
            server.connections.load(Ordering::Relaxed) >= connections + 2
        });
        wait_metric(&gateway, REFRESHES, |count| count >= before + 2);
        assert_eq!(metric(&gateway, KEYS), 1, "{name}");
        let started = Instant::now();
        create(&gateway, &token).unwrap_or_else(|line| panic!("{name}: {line}"));
        let refused = create(&gateway, &with_key_id(&token, "new")).err();
        let refused = refused.expect("its key is unknown");
        assert!(refused.starts_with("CONERR,6,"), "{name}: {refused}");
        // An event loop that waited for the server would need longer.
        assert!(started.elapsed() < Duration::from_secs(10), "{name}");
    }
    assert_eq!(
        elsewhere.connections.load(Ordering::Relaxed),
        0,
        "no redirect is followed"
    );
    server.set(ServerAnswer::Document(two.to_string().into_bytes()));
    wait_metric(&gateway, KEYS, |keys| keys == 2);
    gateway.shut_down();
}

#[test]
fn discovery_of_another_issuer_is_rejected() {
    let keys = KeyServer::start(ServerAnswer::Document(b"{}".to_vec()));
    let server = KeyServer::start(ServerAnswer::Silent);
    let own = format!("http://{}", server.address);
    let document = |issuer: &str, url: &str| {
        let document = json!({ "issuer": issuer, "jwks_uri": url });
        ServerAnswer::Document(document.to_string().into_bytes())
    };
    let url = format!("http://{}/jwks", keys.address);
    server.set(document(&format!("{own}/"), &url));
    let env = TestEnv::new();
    let mut config = config(&env, &own, "keys = \"discovery\"", ANY_ITEM);
    fetch_often(&mut config);
    // It is not ready without keys.
    let gateway = weir_gateway::Gateway::start(config).expect("a gateway");
    for answer in [
        document(&format!("{own}/"), &url),
        document("https://id.example.com", &url),
        document(&own, "http://192.0.2.1/jwks"),
        document(&own, "file:///etc/passwd"),
    ] {
        server.set(answer);
        let before = metric(&gateway, REFRESHES);
        wait_metric(&gateway, REFRESHES, |count| count >= before + 2);
    }
    assert!(!gateway.ready());
    assert_eq!(keys.connections.load(Ordering::Relaxed), 0);
    server.set(document(&own, &url));
    wait_until("keys", || keys.connections.load(Ordering::Relaxed) > 0);
    gateway.shut_down();
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "{what}: the gateway does not fetch"
        );
        thread::sleep(Duration::from_millis(10));
    }
}
