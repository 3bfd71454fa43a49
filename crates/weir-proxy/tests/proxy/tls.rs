//! TLS on both sides: one proxy uses it with clients, and another proxy in front of it uses it with
//! the first as broker.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, StreamOwned};
use weir_net::tls::ClientTls;

use super::support::*;

/// A TLS client connection.
type TlsClientStream = StreamOwned<ClientConnection, TcpStream>;

fn connect_tls(proxy: &TestProxy) -> TlsClientStream {
    let authority = std::fs::read(fixture("ca.pem")).expect("a certificate authority");
    let trust = ClientTls::without_alpn(Some(&authority), None).expect("trust");
    let name = ClientTls::server_name("localhost").expect("a name");
    let tls = trust.begin(name).expect("a connection");
    StreamOwned::new(tls, Raw::connect(proxy.address).stream)
}

/// Sends an ApiVersions request and returns the certificate of the proxy.
fn certificate_of(client: &mut TlsClientStream) -> CertificateDer<'static> {
    client.write_all(&request(18, 0, 1, &[])).expect("sends");
    let mut size = [0; 4];
    client.read_exact(&mut size).expect("a size");
    let mut response = vec![0; i32::from_be_bytes(size) as usize];
    client.read_exact(&mut response).expect("a response");
    assert_eq!(response[..4], [0, 0, 0, 1]);
    client.conn.peer_certificates().expect("certificates")[0].clone()
}

#[test]
fn reloaded_certificate_is_used_for_new_connections() {
    let directory = tempfile::tempdir().expect("a directory");
    let install = |from: &str, to: &str| {
        let to = directory.path().join(to);
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
    let mut open = connect_tls(&proxy);
    let first = certificate_of(&mut open);
    // Half of a renewal: the key is not installed yet.
    install("second.pem", "a.pem");
    proxy.get().reload_certificates();
    assert!(proxy.metric("weir_proxy_tls_reload_failures_total") >= 1);
    assert_eq!(
        certificate_of(&mut connect_tls(&proxy)),
        first,
        "the old one stays in use"
    );
    install("second.key", "a.key");
    proxy.get().reload_certificates();
    assert!(proxy.metric("weir_proxy_tls_reloads_total") >= 1);
    let second = certificate_of(&mut connect_tls(&proxy));
    assert!(second != first, "the new one");
    assert_eq!(
        certificate_of(&mut open),
        first,
        "an open connection is not affected"
    );
    // The proxy also detects changes by itself.
    install("server.pem", "a.pem");
    install("server.key", "a.key");
    await_that("the first one again", || {
        certificate_of(&mut connect_tls(&proxy)) == first
    });
}

#[test]
fn records_pass_with_tls_on_either_side() {
    let copies = tempfile::tempdir().expect("a directory");
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
    let trusting = format!("[cluster.upstream_tls]\nca = \"{authority}\"\n");
    let outer = proxy_to(&upstream, &trusting);
    await_that("the inner proxy to be trusted", || outer.get().is_ready());
    let bootstrap = outer.bootstrap();
    let topic = topic(&bootstrap, "tls", 2, 1);
    let values: Vec<_> = numbered("encrypted", 300)
        .into_iter()
        .map(|value| value + &"x".repeat(2_000))
        .collect();
    produce(&client_config(&bootstrap), &topic, &values);
    assert_eq!(consume(&bootstrap, &topic, 300), values);

    // Plain clients are rejected, and so is an untrusted certificate.
    let mut plain = Raw::connect(inner.address);
    plain.send(&request(18, 0, 1, &[]));
    plain.until_closed();
    let distrusting = format!("[cluster.upstream_tls]\nca = \"{}\"\n", copy("second.pem"));
    let outer = proxy_to(&upstream, &distrusting);
    let mut raw = Raw::connect(outer.address);
    raw.send(&request(18, 0, 1, &[]));
    assert!(raw.until_closed().is_empty());
    assert!(!outer.get().is_ready());
}

#[test]
fn required_client_certificate_is_enforced() {
    let inner = proxy(&format!(
        "advertised_host = \"localhost\"\n[cluster.tls]\ncertificate = \"{0}\"\nkey = \"{1}\"\n\
         client_ca = \"{2}\"\n",
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
