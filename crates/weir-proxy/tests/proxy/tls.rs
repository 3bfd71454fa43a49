//! TLS on both sides: one proxy speaks it with clients, and another, in front of it, with "brokers".

use std::io::{Read, Write};
use std::net::TcpStream;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, StreamOwned};
use weir_net::tls::ClientTls;

use super::support::*;

/// A client that speaks TLS.
type TlsClientStream = StreamOwned<ClientConnection, TcpStream>;

fn seal(proxy: &TestProxy) -> TlsClientStream {
    let authority = std::fs::read(fixture("ca.pem")).expect("an authority");
    let trust = ClientTls::for_any_protocol(Some(&authority), None).expect("trust");
    let name = ClientTls::server_name("localhost").expect("a name");
    let tls = trust.begin(name).expect("begins");
    StreamOwned::new(tls, Raw::connect(proxy.address).stream)
}

/// Asks for versions, and tells which certificate it was shown.
fn shown(client: &mut TlsClientStream) -> CertificateDer<'static> {
    client.write_all(&request(18, 0, 1, &[])).expect("sends");
    let mut size = [0; 4];
    client.read_exact(&mut size).expect("a size");
    let mut answer = vec![0; i32::from_be_bytes(size) as usize];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[..4], [0, 0, 0, 1]);
    client.conn.peer_certificates().expect("certificates")[0].clone()
}

#[test]
fn a_new_certificate_is_shown_and_open_connections_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let install = |from: &str, to: &str| {
        let to = folder.path().join(to);
        std::fs::copy(fixture(from), &to).expect("a copy");
        to.display().to_string()
    };
    let (certificate, key) = (
        install("server.pem", "a.pem"),
        install("server.key", "a.key"),
    );
    let proxy = proxy(&format!(
        "[cluster.tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n"
    ));
    let mut open = seal(&proxy);
    let first = shown(&mut open);
    // Half of a renewal: its key has not come yet.
    install("second.pem", "a.pem");
    proxy.get().reload_certificates();
    assert!(proxy.metric("weir_proxy_tls_reload_failures_total") >= 1);
    assert_eq!(shown(&mut seal(&proxy)), first, "it stays in use");
    install("second.key", "a.key");
    proxy.get().reload_certificates();
    assert!(proxy.metric("weir_proxy_tls_reloads_total") >= 1);
    let second = shown(&mut seal(&proxy));
    assert!(second != first, "the new one");
    assert_eq!(shown(&mut open), first, "goes on as it was");
    // Nobody has to say so.
    install("server.pem", "a.pem");
    install("server.key", "a.key");
    await_that("the first one again", || shown(&mut seal(&proxy)) == first);
}

#[test]
fn records_pass_through_tls_on_either_side() {
    let copies = tempfile::tempdir().expect("a folder");
    let copy = |name: &str| {
        let to = copies.path().join(name);
        std::fs::copy(fixture(name), &to).expect("a copy");
        to.display().to_string()
    };
    let (certificate, key, authority) = (copy("server.pem"), copy("server.key"), copy("ca.pem"));
    let inner = proxy(&format!(
        "advertised_host = \"localhost\"\n[cluster.tls]\ncertificate = \"{certificate}\"\n\
         key = \"{key}\"\n"
    ));
    let upstream = format!("localhost:{}", inner.address.port());
    let trusting = format!("[cluster.upstream_tls]\nauthorities = \"{authority}\"\n");
    let outer = proxy_to(&upstream, &trusting);
    await_that("TLS to be trusted", || outer.get().ready());
    let bootstrap = outer.bootstrap();
    let topic = topic(&bootstrap, "tls", 2, 1);
    let values: Vec<_> = numbered("sealed", 300)
        .into_iter()
        .map(|value| value + &"x".repeat(2_000))
        .collect();
    produce(&settings(&bootstrap), &topic, &values);
    assert_eq!(consume(&bootstrap, &topic, 300), values);

    // Who does not speak TLS gets nowhere, and who does not trust neither.
    let mut plain = Raw::connect(inner.address);
    plain.send(&request(18, 0, 1, &[]));
    plain.until_closed();
    let distrusting = format!(
        "[cluster.upstream_tls]\nauthorities = \"{}\"\n",
        copy("second.pem")
    );
    let outer = proxy_to(&upstream, &distrusting);
    let mut raw = Raw::connect(outer.address);
    raw.send(&request(18, 0, 1, &[]));
    assert!(raw.until_closed().is_empty());
    assert!(!outer.get().ready());
}

#[test]
fn clients_without_a_certificate_get_nowhere_where_one_is_wanted() {
    let inner = proxy(&format!(
        "advertised_host = \"localhost\"\n[cluster.tls]\ncertificate = \"{0}\"\nkey = \"{1}\"\n\
         client_authorities = \"{2}\"\n",
        fixture("server.pem").display(),
        fixture("server.key").display(),
        fixture("ca.pem").display(),
    ));
    let upstream = format!("localhost:{}", inner.address.port());
    let without = proxy_to(&upstream, "[cluster.upstream_tls]\ninsecure = true\n");
    let mut raw = Raw::connect(without.address);
    raw.send(&request(18, 0, 1, &[]));
    assert!(raw.until_closed().is_empty());
    inner.await_metric("weir_proxy_requests_total", 0);
}
