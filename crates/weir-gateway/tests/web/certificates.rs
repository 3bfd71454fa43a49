//! Clients that are identified by their certificates.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_lab::security::{Authority, CertificateRequest, CertificateUsage, IssuedCertificate};

use super::signer::{ISSUER, Signer, key_document};
use super::*;

type Tls = StreamOwned<ClientConnection, TcpStream>;

const REFUSED: &str = "CONERR,1,User or password refused";

const CERTIFICATES: &str = r#"
[tls]
certificate = "server.pem"
key = "server.key"
client_ca = "clients.pem"

[auth]
sources = ["certificate"]

[[authorize]]
name = "own"
when = { "weir.auth" = "certificate" }
items = ["ltest-[key={claims.tls.cn}]", "ltest-[key={claims.tls.dns}]"]
"#;

/// Files of a gateway that accepts certificates of an authority.
fn files(authority: &Authority) -> Files {
    let files = Files::new();
    for name in ["server.pem", "server.key"] {
        std::fs::copy(fixture(name), files.path(name)).expect("a copy");
    }
    trust(&files, authority);
    files
}

fn trust(files: &Files, authority: &Authority) {
    std::fs::write(files.path("clients.pem"), authority.certificate_pem()).expect("a file");
}

fn authority() -> Authority {
    Authority::new("clients").expect("an authority")
}

fn issue(authority: &Authority, name: &str, is_expired: bool) -> IssuedCertificate {
    let request = CertificateRequest {
        name,
        hosts: &["desk-7.example"],
        usage: CertificateUsage::Client,
        is_expired,
    };
    authority.issue(&request).expect("a certificate")
}

/// Starts a connection with a certificate or none. Handshakes end with the first bytes.
fn connect_as(address: SocketAddr, certificate: Option<&IssuedCertificate>) -> Tls {
    let mut roots = RootCertStore::empty();
    let server = CertificateDer::from_pem_file(fixture("ca.pem")).expect("PEM");
    roots.add(server).expect("an authority");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match certificate {
        None => config.with_no_client_auth(),
        Some(issued) => {
            let chain = vec![issued.certificate_der.clone().into()];
            let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).expect("a key");
            let config = config.with_client_auth_cert(chain, key);
            config.expect("a certificate with its key")
        }
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    StreamOwned::new(session, connect(address))
}

fn web_socket(gateway: &Gateway, certificate: Option<&IssuedCertificate>) -> WebSocket<Tls> {
    let tls = connect_as(gateway.listen_address(), certificate);
    upgrade(tls, None).expect("a WebSocket")
}

/// Returns the response to `create_session` of a client with a certificate.
fn create(gateway: &Gateway, certificate: Option<&IssuedCertificate>) -> String {
    exchange(&mut web_socket(gateway, certificate), CREATE, "CON")
}

/// Returns `true` if the handshake fails.
fn is_rejected(gateway: &Gateway, certificate: Option<&IssuedCertificate>) -> bool {
    let mut tls = connect_as(gateway.listen_address(), certificate);
    let request = b"GET /lightstreamer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut response = Vec::new();
    let sent = tls.write_all(request).and_then(|()| tls.flush());
    let read = tls.read_to_end(&mut response);
    (sent.is_err() || read.is_err()) && response.is_empty()
}

fn add(id: u32, key: &str) -> String {
    format!(
        "control\r\nLS_reqId={id}&LS_op=add&LS_subId={id}&LS_mode=RAW&LS_schema=value\
         &LS_group=ltest-%5Bkey%3D{key}%5D&LS_data_adapter=QuickStart"
    )
}

#[test]
fn certificate_identifies_client_and_protects_session() {
    let authority = authority();
    let files = files(&authority);
    let gateway = files.start(CERTIFICATES);
    let (anna, bob) = (
        issue(&authority, "anna", false),
        issue(&authority, "bob", false),
    );
    let mut first = web_socket(&gateway, Some(&anna));
    let created = exchange(&mut first, CREATE, "CON");
    assert!(created.starts_with("CONOK,"), "{created}");
    await_metric(
        &gateway,
        "weir_gateway_sessions_by_auth{auth=\"certificate\"} 1",
    );
    for (id, key) in [(1, "anna"), (2, "desk-7.example")] {
        assert!(exchange(&mut first, &add(id, key), "SUBOK").starts_with("SUBOK,"));
    }
    let denied = exchange(&mut first, &add(3, "bob"), "REQERR");
    assert_eq!(denied, "REQERR,3,-2,Not authorized");
    // The session ID alone is worth nothing.
    let id = created.split(',').nth(1).expect("an id");
    let bind = format!("bind_session\r\nLS_session={id}");
    let mut foreign = web_socket(&gateway, Some(&bob));
    assert!(exchange(&mut foreign, &bind, "CON").starts_with("CONERR,20,"));
    let destroy = format!("control\r\nLS_reqId=1&LS_op=destroy&LS_session={id}");
    let mut other = web_socket(&gateway, Some(&bob));
    assert!(exchange(&mut other, &destroy, "REQERR").starts_with("REQERR,1,20,"));
    // The renewed certificate of the same user.
    let renewed = issue(&authority, "anna", false);
    let mut second = web_socket(&gateway, Some(&renewed));
    assert!(exchange(&mut second, &bind, "CON").starts_with("CONOK,"));
    gateway.shut_down();
}

#[test]
fn invalid_certificates_end_the_handshake() {
    let (authority, other) = (authority(), authority());
    let files = files(&authority);
    let (foreign, expired) = (
        issue(&other, "anna", false),
        issue(&authority, "anna", true),
    );
    let anna = issue(&authority, "anna", false);
    for (auth, accepts_none) in [("", false), ("client_auth = \"optional\"\n", true)] {
        let lines = CERTIFICATES.replace("\n[auth]", &format!("{auth}\n[auth]"));
        let gateway = files.start(&lines);
        for rejected in [&foreign, &expired] {
            assert!(is_rejected(&gateway, Some(rejected)), "{auth}");
        }
        assert!(
            create(&gateway, Some(&anna)).starts_with("CONOK,"),
            "{auth}"
        );
        assert_eq!(is_rejected(&gateway, None), !accepts_none, "{auth}");
        if accepts_none {
            assert_eq!(create(&gateway, None), REFUSED);
        }
        gateway.shut_down();
    }
}

#[test]
fn optional_certificate_goes_with_other_clients() {
    let authority = authority();
    let files = files(&authority);
    let lines = CERTIFICATES.replace(
        "\n[auth]",
        "client_auth = \"optional\"\n\n[auth]\nanonymous = true",
    );
    let gateway = files.start(&lines);
    let mut none = web_socket(&gateway, None);
    assert!(exchange(&mut none, CREATE, "CON").starts_with("CONOK,"));
    let denied = exchange(&mut none, &add(1, "anna"), "REQERR");
    assert_eq!(denied, "REQERR,1,-2,Not authorized");
    // A certificate without a name identifies no client, and is not as good as none.
    let nameless = CertificateRequest {
        name: "",
        hosts: &[],
        usage: CertificateUsage::Client,
        is_expired: false,
    };
    let nameless = authority.issue(&nameless).expect("a certificate");
    assert_eq!(create(&gateway, Some(&nameless)), REFUSED);
    let anna = issue(&authority, "anna", false);
    let as_bob = format!("{CREATE}&LS_user=bob");
    let mut socket = web_socket(&gateway, Some(&anna));
    assert_eq!(exchange(&mut socket, &as_bob, "CON"), REFUSED);
    gateway.shut_down();
}

#[test]
fn rules_can_require_token_and_certificate() {
    let authority = authority();
    let files = files(&authority);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    let expires_s = now.expect("a time after 1970").as_secs() + 3_600;
    let signer = Signer::new("k1", expires_s);
    std::fs::write(files.path("keys.json"), key_document(&[&signer])).expect("a file");
    let lines = CERTIFICATES
        .replace("\n[auth]", "client_auth = \"optional\"\n\n[auth]")
        .replace("[\"certificate\"]", "[\"password\", \"certificate\"]")
        .replace(
            "\"weir.auth\" = \"certificate\"",
            "\"weir.auth\" = \"jwt\", role = \"trader\"",
        );
    let gateway = files.start(&format!(
        "{lines}\n[[auth.issuer]]\nissuer = \"{ISSUER}\"\naudience = \"weir\"\n\
         jwks_file = \"keys.json\"\n"
    ));
    let desk = issue(&authority, "desk", false);
    let open = |certificate, claims: &str| {
        let mut socket = web_socket(&gateway, certificate);
        let create = format!("{CREATE}&LS_password={}", signer.token(claims));
        let created = exchange(&mut socket, &create, "CON");
        assert!(created.starts_with("CONOK,"), "{created}");
        socket
    };
    let trader = r#"{"role":"trader"}"#;
    let denied = "REQERR,1,-2,Not authorized";
    let mut both = open(Some(&desk), trader);
    assert!(exchange(&mut both, &add(1, "desk"), "SUBOK").starts_with("SUBOK,"));
    // Claims of the token cannot replace the names in the certificate.
    for (certificate, claims) in [
        (None, r#"{"role":"trader","tls":{"cn":"desk"}}"#),
        (Some(&desk), "{}"),
        (None, trader),
    ] {
        let mut one = open(certificate, claims);
        assert_eq!(exchange(&mut one, &add(1, "desk"), "REQERR"), denied);
    }
    // A new token keeps the names.
    let refresh = |socket: &mut WebSocket<Tls>, prog: u32, claims: &str| {
        let token = signer.token(claims);
        let text = format!(
            "msg\r\nLS_reqId=9&LS_sequence=weir_auth&LS_msg_prog={prog}&LS_message={token}"
        );
        exchange(socket, &text, "MSG")
    };
    assert!(refresh(&mut both, 1, trader).starts_with("MSGDONE,"));
    assert!(exchange(&mut both, &add(2, "desk"), "SUBOK").starts_with("SUBOK,2"));
    assert!(refresh(&mut both, 2, "{}").starts_with("MSGDONE,"));
    assert_eq!(
        exchange(&mut both, &add(3, "desk"), "REQERR"),
        "REQERR,3,-2,Not authorized"
    );
    gateway.shut_down();
}

#[test]
fn authorities_of_clients_are_reloaded() {
    let (old, new) = (authority(), authority());
    let files = files(&old);
    let gateway = files.start(CERTIFICATES);
    let (former, current) = (issue(&old, "anna", false), issue(&new, "anna", false));
    assert!(is_rejected(&gateway, Some(&current)));
    assert!(create(&gateway, Some(&former)).starts_with("CONOK,"));
    // The gateway checks the file without a request.
    trust(&files, &new);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while is_rejected(&gateway, Some(&current)) {
        assert!(Instant::now() < deadline, "the old authority is still used");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(create(&gateway, Some(&current)).starts_with("CONOK,"));
    assert!(is_rejected(&gateway, Some(&former)));
    gateway.shut_down();
}

#[test]
fn incomplete_settings_are_rejected_with_remedy() {
    let files = files(&authority());
    let reason = |lines: &str| files.load(lines).expect_err("an error").to_string();
    let without = CERTIFICATES.replace("client_ca", "#");
    assert!(
        reason(&without).contains("give the authorities"),
        "{}",
        reason(&without)
    );
    let half = without.replace("#", "client_auth = \"required\" #");
    assert!(
        reason(&half).contains("client_auth needs tls.client_ca"),
        "{}",
        reason(&half)
    );
    let missing = CERTIFICATES.replace("clients.pem", "none.pem");
    assert!(
        reason(&missing).contains("none.pem: cannot read"),
        "{}",
        reason(&missing)
    );
    std::fs::write(files.path("clients.pem"), "nothing").expect("a file");
    assert!(
        reason(CERTIFICATES).contains("clients.pem: no certificate in"),
        "{}",
        reason(CERTIFICATES)
    );
}
