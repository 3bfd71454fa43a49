//! The connection to the adapter over TLS.

use std::path::PathBuf;

use super::support::adapter::{Adapter, AdapterEnv, BUSY, MERGE, node};

/// Returns the path of a file of the test certificates, made for `localhost`.
fn certificate(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-net/tests/tls");
    PathBuf::from(directory).join(name)
}

fn start() -> AdapterEnv {
    AdapterEnv::start(|toml| {
        let [chain, key] = ["server.pem", "server.key"].map(certificate);
        let files = format!("certificate = {chain:?}\nkey = {key:?}\n");
        toml.replace("[adapter]\n", &format!("[adapter]\n{files}"))
    })
}

#[test]
fn node_adapter_decides_over_tls() {
    let env = start();
    let mut command = node();
    command.env("ADAPTER_CA", certificate("ca.pem"));
    let adapter = Adapter::start(command, env.address());
    env.wait_ready();
    adapter.wait_for("init eu");
    let mut anna = env.session("anna");
    assert_eq!(anna.line_after_add(1, "own", MERGE), "REQOK,1");
    let confirmed = [anna.client.line(), anna.client.line()];
    assert_eq!(confirmed, ["SUBOK,1,1,1", "CONF,1,2.5,filtered"]);
    assert_eq!(anna.message(1, "buy"), "MSGDONE,orders,1,");
    anna.client.send("control\r\nLS_reqId=9&LS_op=destroy");
    adapter.wait_for(&format!("NSC {}", anna.id));
}

#[test]
fn adapter_without_tls_or_with_another_authority_is_not_asked() {
    let env = start();
    let mut plain = Adapter::start(node(), env.address());
    plain.wait_for_end();
    let mut command = node();
    command.env("ADAPTER_CA", certificate("second.pem"));
    let mut other = Adapter::start(command, env.address());
    other.wait_for_end();
    assert_eq!(env.create("anna").err().as_deref(), Some(BUSY));
    let (_, text) = env.readiness();
    assert!(text.contains("remote adapter: not connected"), "{text}");
}
