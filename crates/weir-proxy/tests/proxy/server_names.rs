//! One port for several clusters and their brokers, selected by server name.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use bytes::Bytes;
use kafka_protocol::messages::{MetadataResponse, ResponseHeader};
use kafka_protocol::protocol::Decodable;
use rustls::{AlertDescription, ClientConnection, StreamOwned};
use weir_lab::security::{Authority, CertificateRequest, CertificateUsage};
use weir_net::tls::ClientTls;

use super::support::*;

/// A certificate authority with the files of its certificates.
pub(crate) struct TestAuthority {
    authority: Authority,
    dir: tempfile::TempDir,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        let authority = Authority::new("names").expect("an authority");
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("ca.pem"), authority.certificate_pem()).expect("writes");
        Self { authority, dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Issues a certificate. Returns its keys of a table.
    pub(crate) fn issue(&self, name: &str, hosts: &[&str]) -> String {
        let request = CertificateRequest {
            name,
            hosts,
            usage: CertificateUsage::Server,
            is_expired: false,
        };
        let issued = self.authority.issue(&request).expect("a certificate");
        let (certificate, key) = (
            self.path(&format!("{name}.pem")),
            self.path(&format!("{name}.key")),
        );
        std::fs::write(&certificate, issued.certificate_pem).expect("writes");
        std::fs::write(&key, issued.key_pem).expect("writes");
        let (certificate, key) = (certificate.display(), key.display());
        format!("certificate = \"{certificate}\"\nkey = \"{key}\"\n")
    }

    /// Connects with a server name; none is sent for an address.
    pub(crate) fn connect(&self, to: SocketAddr, name: &str) -> NamedClient {
        self.connect_through(WireStream::whole(to), name)
    }

    fn connect_through(&self, stream: WireStream, name: &str) -> NamedClient {
        let trust =
            ClientTls::without_alpn(Some(self.authority.certificate_pem().as_bytes()), None);
        let name = ClientTls::server_name(name).expect("a name");
        let tls = trust.expect("trust").begin(name).expect("a session");
        NamedClient(StreamOwned::new(tls, stream))
    }
}

/// A socket that sends single bytes, or as many as there are.
struct WireStream {
    socket: TcpStream,
    in_bytes: bool,
}

impl WireStream {
    fn whole(to: SocketAddr) -> Self {
        Self {
            socket: Raw::connect(to).stream,
            in_bytes: false,
        }
    }
}

impl Read for WireStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for WireStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = if self.in_bytes { 1 } else { bytes.len() };
        self.socket.write(&bytes[..count])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

pub(crate) struct NamedClient(StreamOwned<ClientConnection, WireStream>);

impl NamedClient {
    /// Returns the brokers in a Metadata response: node id and address.
    pub(crate) fn brokers(&mut self) -> io::Result<Vec<(i32, String)>> {
        self.0.write_all(&request(3, 1, 5, &0_i32.to_be_bytes()))?;
        self.0.flush()?;
        let mut size = [0; 4];
        self.0.read_exact(&mut size)?;
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        self.0.read_exact(&mut frame)?;
        let mut frame = Bytes::from(frame);
        ResponseHeader::decode(&mut frame, 0).expect("a header");
        let response = MetadataResponse::decode(&mut frame, 1).expect("a response");
        let brokers = response.brokers.iter();
        let brokers = brokers.map(|one| (one.node_id.0, format!("{}:{}", &*one.host, one.port)));
        Ok(brokers.collect())
    }

    pub(crate) fn local_address(&self) -> SocketAddr {
        self.0.sock.socket.local_addr().expect("an address")
    }

    /// Returns the certificate of the proxy.
    fn certificate(&self) -> Vec<u8> {
        let certificates = self.0.conn.peer_certificates().expect("certificates");
        certificates[0].to_vec()
    }

    /// Returns the alert that ends the handshake.
    fn alert(&mut self) -> AlertDescription {
        let error = self.brokers().expect_err("rejected");
        let error = error.get_ref().and_then(|error| error.downcast_ref());
        match error {
            Some(rustls::Error::AlertReceived(alert)) => *alert,
            other => panic!("no alert: {other:?}"),
        }
    }
}

/// Returns the table of server names.
pub(crate) fn sni(name: &str, more: &str) -> String {
    format!(
        "[cluster.sni]\nbootstrap = [\"{name}.example.com\"]\n\
         broker = \"b$(nodeId)-{name}.example.com\"\n{more}"
    )
}

/// Returns the keys of a second cluster at the same address.
fn second_cluster(name: &str, tls: &str, more: &str) -> String {
    let upstream = broker();
    format!(
        "[[cluster]]\nname = \"{name}\"\nupstream = \"{upstream}\"\nlisten = \"127.0.0.1:0\"\n\
         [cluster.tls]\n{tls}{}",
        sni(name, more)
    )
}

#[test]
fn names_select_cluster_broker_and_certificate() {
    let authority = TestAuthority::new();
    let all = authority.issue("all", &["*.example.com"]);
    let own = authority.issue("own", &["orders.example.com"]);
    let brokers = authority.issue("brokers", &["*.example.com"]);
    let certificates = format!(
        "[[cluster.sni.certificate]]\nnames = [\"*.example.com\"]\n{brokers}\
         [[cluster.sni.certificate]]\nnames = [\"Orders.example.com\"]\n{own}"
    );
    let first = format!("[cluster.tls]\n{all}{}", sni("orders", &certificates));
    let second = second_cluster("billing", &all, "advertised_port = 443\n");
    let proxy = proxy(&format!("{first}{second}"));
    let port = proxy.address.port();
    let ports: Vec<_> = proxy.get().addresses().map(|(_, one)| one.port()).collect();
    assert_eq!(ports, [port, port], "one port");

    let mut orders = authority.connect(proxy.address, "ORDERS.example.com");
    let brokers = orders.brokers().expect("a response");
    let [(id, address)] = &brokers[..] else {
        panic!("one broker: {brokers:?}");
    };
    assert_eq!(*address, format!("b{id}-orders.example.com:{port}"));
    let known = proxy.get().brokers("default");
    assert_eq!(known[0].advertised, *address);
    let mut one = authority.connect(proxy.address, &format!("b{id}-orders.example.com"));
    assert_eq!(one.brokers().expect("a response"), brokers);
    let page = proxy.page("/connections");
    for part in [
        format!("\"node_id\":{id}"),
        format!("\"server_name\":\"b{id}-orders.example.com\""),
    ] {
        assert!(page.contains(&part), "{part} in {page}");
    }
    let mut billing = authority.connect(proxy.address, "billing.example.com");
    let advertised = billing.brokers().expect("a response");
    let [(_, address)] = &advertised[..] else {
        panic!("one broker: {advertised:?}");
    };
    assert_eq!(*address, format!("b{id}-billing.example.com:443"));
    // Exact name, wildcard, and the certificate of the cluster.
    let served = [&orders, &one, &billing].map(NamedClient::certificate);
    let files = ["own", "brokers", "all"].map(|name| {
        let pem = std::fs::read(authority.path(&format!("{name}.pem"))).expect("a file");
        let mut chain = certificates_in(&pem);
        chain.remove(0)
    });
    assert_eq!(served, files);
}

/// Returns the certificates of a file, DER.
fn certificates_in(pem: &[u8]) -> Vec<Vec<u8>> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let all = CertificateDer::pem_slice_iter(pem);
    all.map(|one| one.expect("a certificate").to_vec())
        .collect()
}

#[test]
fn hostile_hellos_are_rejected_in_time() {
    let authority = TestAuthority::new();
    let all = authority.issue("all", &["*.example.com", "127.0.0.1"]);
    let first = format!("[cluster.tls]\n{all}{}", sni("orders", ""));
    let second = second_cluster("billing", &all, "");
    let limits = "[limits]\nhandshake_timeout_ms = 1000\n---\n";
    let proxy = proxy(&format!("{limits}{first}{second}"));
    let to = proxy.address;
    for (name, alert) in [
        ("other.example.com", AlertDescription::UnrecognisedName),
        ("b01-orders.example.com", AlertDescription::UnrecognisedName),
        ("127.0.0.1", AlertDescription::MissingExtension),
    ] {
        assert_eq!(authority.connect(to, name).alert(), alert, "{name}");
    }
    proxy.await_metric("weir_proxy_server_names_rejected_total", 3);
    // A broker that does not exist now: the handshake ends, then the connection.
    let mut absent = authority.connect(to, "b99-orders.example.com");
    let error = absent.brokers().expect_err("closed");
    assert!(!absent.0.conn.is_handshaking(), "{error}");
    proxy.await_metric("weir_proxy_connect_failures_total", 1);
    // One byte at a time.
    let stream = WireStream {
        in_bytes: true,
        ..WireStream::whole(to)
    };
    let mut slow = authority.connect_through(stream, "orders.example.com");
    assert_eq!(slow.brokers().expect("a response").len(), 1);
    // No TLS, a hello that is too long, and none.
    let failures = proxy.metric("weir_proxy_tls_failures_total");
    let mut plain = Raw::connect(to);
    plain.send(&request(18, 0, 1, &[]));
    assert_eq!(plain.until_closed()[..1], [21], "an alert");
    let mut long = Raw::connect(to);
    let record = [&[22, 3, 1, 0x3f, 0xfc, 1, 0, 0xff, 0xf0][..], &[0; 16_376]].concat();
    let rest = [&[22, 3, 1, 0x3f, 0xfc][..], &[0; 16_380]].concat();
    // The proxy may close before it has read everything.
    let _ = long
        .stream
        .write_all(&[record, rest.clone(), rest].concat());
    long.until_closed();
    proxy.await_metric("weir_proxy_tls_failures_total", failures + 2);
    let mut half = Raw::connect(to);
    half.send(&[22, 3, 1, 1, 0, 1, 0]);
    let mut silent = Raw::connect(to);
    for raw in [&mut half, &mut silent] {
        assert!(raw.until_closed().is_empty());
    }
    proxy.await_metric("weir_proxy_timeouts_total", 2);
    drop(slow);
    proxy.await_metric("weir_proxy_connections", 0);
}

#[test]
fn clients_without_name_use_the_default_cluster() {
    let authority = TestAuthority::new();
    let all = authority.issue("all", &["127.0.0.1"]);
    let first = format!("[cluster.tls]\n{all}{}", sni("orders", ""));
    let only = proxy(&first);
    let advertised = |proxy: &TestProxy| {
        let mut client = authority.connect(proxy.address, "127.0.0.1");
        let brokers = client.brokers().expect("a response");
        brokers[0].1.clone()
    };
    assert!(advertised(&only).contains("-orders.example.com:"));
    let second = second_cluster("billing", &all, "default = true\n");
    let two = proxy(&format!("{first}{second}"));
    assert!(advertised(&two).contains("-billing.example.com:"));
}

#[test]
fn expiry_of_certificates_for_names_is_reported() {
    let authority = TestAuthority::new();
    let own = authority.issue("own", &["orders.example.com"]);
    let later = format!(
        "certificate = \"{}\"\nkey = \"{}\"\n",
        fixture("server.pem").display(),
        fixture("server.key").display()
    );
    let table = format!("[[cluster.sni.certificate]]\nnames = [\"orders.example.com\"]\n{own}");
    let end = |names: &str| {
        let proxy = proxy(&format!("[cluster.tls]\n{later}{}", sni("orders", names)));
        proxy.metric("weir_proxy_tls_certificate_expiry_timestamp_seconds")
    };
    assert!(end(&table) < end(""), "the earliest counts");
}

#[test]
fn header_comes_before_the_hello() {
    let authority = TestAuthority::new();
    let all = authority.issue("all", &["*.example.com"]);
    let keys = "proxy_protocol = \"required\"\ntrusted = [\"127.0.0.1\"]\n";
    let proxy = proxy(&format!("{keys}[cluster.tls]\n{all}{}", sni("orders", "")));
    let line = b"PROXY TCP6 2001:db8::7 ::1 1234 9092\r\n";
    let mut stream = WireStream::whole(proxy.address);
    stream.write_all(line).expect("sends");
    let mut client = authority.connect_through(stream, "orders.example.com");
    assert_eq!(client.brokers().expect("a response").len(), 1);
    let page = proxy.page("/connections");
    assert!(page.contains("\"client\":\"[2001:db8::7]:1234\""), "{page}");
    assert!(
        page.contains("\"server_name\":\"orders.example.com\""),
        "{page}"
    );
    // A second header, and a hello without a header.
    let mut twice = WireStream::whole(proxy.address);
    twice.write_all(&[&line[..], line].concat()).expect("sends");
    let mut raw = Raw {
        stream: twice.socket,
        client_id: "",
    };
    assert_eq!(raw.until_closed()[..1], [21], "an alert");
    let mut without = authority.connect(proxy.address, "orders.example.com");
    without.brokers().expect_err("closed");
    proxy.await_metric("weir_proxy_proxy_headers_rejected_total", 1);
}

#[test]
fn reload_changes_names_for_new_connections() {
    let authority = TestAuthority::new();
    let all = authority.issue("all", &["*.example.com", "127.0.0.1"]);
    let ports = weir_lab::ports::free_ports([127, 0, 0, 1].into(), 3).expect("ports");
    let [shared, own, broker_port] = ports[..] else {
        panic!("three ports");
    };
    let to = SocketAddr::from(([127, 0, 0, 1], shared));
    let tls = format!("[cluster.tls]\n{all}");
    let proxy = proxy("");
    let base = proxy.config_text();
    let cluster = |listen: u16, more: &str| {
        let upstream = broker();
        format!(
            "[[cluster]]\nname = \"moving\"\nupstream = \"{upstream}\"\n\
             listen = \"127.0.0.1:{listen}\"\n{more}"
        )
    };
    let reload = |more: &str| {
        proxy.write_config(&base, more);
        proxy.get().reload().expect("reloaded").closing
    };
    let range = format!("broker_ports = \"{broker_port}-{broker_port}\"\n");
    let with_ports = || {
        let mut client = authority.connect(to, "127.0.0.1");
        let brokers = client.brokers().expect("a response");
        assert_eq!(brokers[0].1, format!("127.0.0.1:{broker_port}"));
        client
    };
    assert_eq!(reload(&cluster(shared, &format!("{range}{tls}"))), 0);
    let mut first = with_ports();

    // The address changes its meaning; the open connection sees the new addresses.
    let named = |name: &str| cluster(shared, &format!("{tls}{}", sni(name, "")));
    assert_eq!(reload(&named("orders")), 0);
    let expected = format!("-orders.example.com:{shared}");
    await_that("the name to be served", || {
        let mut client = authority.connect(to, "orders.example.com");
        matches!(client.brokers(), Ok(brokers) if brokers[0].1.ends_with(&expected))
    });
    let seen = first.brokers().expect("a response");
    assert!(seen[0].1.ends_with(&expected), "{seen:?}");

    // Other names, then a second address.
    assert_eq!(reload(&named("billing")), 0);
    let mut old = authority.connect(to, "orders.example.com");
    assert_eq!(old.alert(), AlertDescription::UnrecognisedName);
    let both = format!(
        "{range}{tls}{}",
        sni("billing", &format!("listen = \"{to}\"\n"))
    );
    assert_eq!(reload(&cluster(own, &both)), 0);
    let mut by_name = authority.connect(to, "billing.example.com");
    let names = by_name.brokers().expect("a response");
    assert!(
        names[0]
            .1
            .ends_with(&format!("-billing.example.com:{shared}"))
    );
    let own_address = SocketAddr::from(([127, 0, 0, 1], own));
    let has_port = |to: SocketAddr| {
        let mut client = authority.connect(to, "127.0.0.1");
        let expected = format!("127.0.0.1:{broker_port}");
        matches!(client.brokers(), Ok(brokers) if brokers[0].1 == expected)
    };
    await_that("the second address", || has_port(own_address));

    // Back to ports at the shared address.
    assert_eq!(reload(&cluster(shared, &format!("{range}{tls}"))), 0);
    await_that("ports again", || has_port(to));
    assert_eq!(first.brokers().expect("a response").len(), 1);
    assert_eq!(proxy.metric("weir_proxy_reload_closed_total"), 0);
}
