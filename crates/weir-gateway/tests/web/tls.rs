//! TLS connections and certificate reload.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn connect_tls(address: SocketAddr) -> Tls {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(fixture("ca.pem")).expect("PEM");
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    StreamOwned::new(session, connect(address))
}

fn shown(stream: &Tls) -> CertificateDer<'static> {
    let chain = stream.conn.peer_certificates().expect("a certificate");
    chain[0].clone().into_owned()
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(fixture(name)).expect("PEM")
}

fn install(files: &Files, name: &str) {
    for (kind, to) in [("key", "key.pem"), ("pem", "cert.pem")] {
        std::fs::copy(fixture(&format!("{name}.{kind}")), files.path(to)).expect("a copy");
    }
}

const SEPARATE_TLS: &str =
    "[tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\nlisten = \"127.0.0.1:0\"";

#[test]
fn tls_and_plain_sessions_work_side_by_side() {
    let files = Files::new();
    install(&files, "server");
    let gateway = files.start(SEPARATE_TLS);
    let tls = gateway.tls_address().expect("TLS is served");
    assert_ne!(tls, gateway.listen_address());
    let mut secure = upgrade(connect_tls(tls), None).expect("a WebSocket");
    let mut plain = upgrade(connect(gateway.listen_address()), None).expect("a WebSocket");
    assert!(exchange(&mut secure, CREATE, "CON").starts_with("CONOK,"));
    assert!(exchange(&mut plain, CREATE, "CON").starts_with("CONOK,"));
    let add = "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=RAW\
    &LS_group=ltest-%5Bkey%3DApple%5D&\
               LS_schema=value&LS_data_adapter=QuickStart";
    assert_eq!(exchange(&mut secure, add, "SUBOK"), "SUBOK,1,1,1");
    await_metric(&gateway, "weir_gateway_sessions 2");
    await_metric(&gateway, "weir_gateway_tls_handshakes_total 1");
    await_metric(
        &gateway,
        "weir_gateway_tls_certificate_expiry_timestamp_seconds 4733510400",
    );
    gateway.shut_down();
}

#[test]
fn tls_without_own_address_replaces_plain() {
    let files = Files::new();
    install(&files, "server");
    let gateway = files.start(&SEPARATE_TLS.replace("listen", "#"));
    assert_eq!(gateway.tls_address(), Some(gateway.listen_address()));
    let mut secure = upgrade(connect_tls(gateway.listen_address()), None).expect("a WebSocket");
    assert!(exchange(&mut secure, CREATE, "CON").starts_with("CONOK,"));
    let mut plain = connect(gateway.listen_address());
    plain
        .write_all(b"GET /lightstreamer HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("a request");
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).unwrap_or_default();
    assert!(
        !answer.starts_with(b"HTTP"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    await_metric(&gateway, "weir_gateway_tls_failures_total 1");
    gateway.shut_down();
}

#[test]
fn renewed_certificate_is_used_without_restart() {
    let files = Files::new();
    install(&files, "server");
    let gateway = files.start(SEPARATE_TLS);
    let address = gateway.tls_address().expect("TLS is served");
    let mut old = upgrade(connect_tls(address), None).expect("a WebSocket");
    assert_eq!(shown(old.get_ref()), certificate("server.pem"));
    // The gateway checks the files without a request.
    install(&files, "second");
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let new = upgrade(connect_tls(address), None).expect("a WebSocket");
        if shown(new.get_ref()) == certificate("second.pem") {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "the old certificate is still used"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(
        exchange(&mut old, CREATE, "CON").starts_with("CONOK,"),
        "the old connection still works"
    );
    // Invalid files are ignored: new connections see no difference.
    std::fs::write(files.path("key.pem"), "nonsense").expect("a file");
    gateway.reload();
    await_metric(&gateway, "weir_gateway_tls_reload_failures_total 1");
    let after = upgrade(connect_tls(address), None).expect("a WebSocket");
    assert_eq!(shown(after.get_ref()), certificate("second.pem"));
    gateway.shut_down();
}

#[test]
fn invalid_certificate_is_rejected_with_file_name() {
    let files = Files::new();
    let said = |lines: &str| {
        files
            .load(lines)
            .expect_err("an invalid certificate")
            .to_string()
    };
    assert!(
        said(SEPARATE_TLS).contains("cert.pem"),
        "{}",
        said(SEPARATE_TLS)
    );
    install(&files, "server");
    std::fs::copy(fixture("second.key"), files.path("key.pem")).expect("a copy");
    assert!(
        said(SEPARATE_TLS).contains("cannot be used together"),
        "{}",
        said(SEPARATE_TLS)
    );
    install(&files, "server");
    let error = said(&format!("{SEPARATE_TLS}\nhandshake_timeout_ms = 5"));
    assert!(
        error.contains("handshake_timeout_ms = 5: use 100 to 600000"),
        "{error}"
    );
}
