//! Cost of SCRAM logins without sockets: `cargo bench -p weir-sasl`.
//!
//! Best of several rounds on one thread. A login is all requests and responses of client and
//! server. The client has derived its keys before, so most of the time is the server's.

// The crate has no side effects, but the benchmark reads the clock and prints.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use weir_sasl::client::{LoginDialogue, LoginProgress, SaslExchange, ScramUser};
use weir_sasl::server::{Admission, LoginEnv, LoginResponse, Mechanism, ServerLogin};
use weir_sasl::users::{Credential, Users};
use weir_security::{Login, ScramHash, Secret};

#[path = "../../../bench/best_time.rs"]
mod best_time;

use best_time::best_time;

/// Iterations of keys that Kafka creates at least.
const ITERATIONS: u32 = 4_096;
const SASL_HANDSHAKE: i16 = 17;
const SASL_AUTHENTICATE: i16 = 36;

fn main() {
    println!("{:<40}{:>12}{:>14}", "", "ns", "per second");
    for (hash, name) in [
        (ScramHash::Sha256, "SCRAM-SHA-256"),
        (ScramHash::Sha512, "SCRAM-SHA-512"),
    ] {
        let credential = Credential::derive(hash, &Secret::new("pencil"), vec![1; 16], ITERATIONS);
        let line = format!("user:{name}:{credential}");
        let users = Users::parse(&line, b"decoy").expect("valid");
        let login = Login {
            username: "user".to_owned(),
            password: Secret::new("pencil"),
        };
        let user = Arc::new(ScramUser::new(hash, login));
        let ns = best_time(|| log_in(name, hash, &user, &users));
        println!(
            "{:<40}{ns:>12.0}{:>14.0}",
            format!("{name} login"),
            1e9 / ns
        );
    }
}

/// Runs one login from handshake to success.
fn log_in(name: &'static str, hash: ScramHash, user: &Arc<ScramUser>, users: &Users) {
    let exchange = SaslExchange::scram(name, Arc::clone(user), "client-nonce".to_owned());
    let mut client = LoginDialogue::without_versions(exchange);
    let mut server = ServerLogin::default();
    let env = LoginEnv {
        mechanisms: &[Mechanism::Scram(hash)],
        users,
        nonce: "server-nonce-of-24-bytes",
        now_ms: 0,
    };
    let mut request = BytesMut::new();
    for key in [SASL_HANDSHAKE, SASL_AUTHENTICATE, SASL_AUTHENTICATE] {
        request.clear();
        client.write(&mut request, 1, "bench").expect("encodes");
        assert_eq!(server.admit(key, true), Admission::Login);
        let response = match server.request(&request, &env).expect("valid") {
            LoginResponse::Send(frame) => frame,
            LoginResponse::User(_) => server.accept(None),
            other => panic!("{other:?}"),
        };
        let progress = client.read(&response[8..], Instant::now(), 0);
        if matches!(progress.expect("valid"), LoginProgress::Complete(_)) {
            assert!(server.is_logged_in());
            return;
        }
    }
    panic!("no login after three requests");
}
