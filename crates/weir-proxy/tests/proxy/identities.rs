//! Credentials of the proxy at brokers that require a login or a certificate.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use kafka_protocol::messages::ApiVersionsRequest;
use rdkafka::producer::{BaseProducer, Producer};
use serde_json::json;
use weir_lab::security::{Authority, CertificateRequest, CertificateUsage, ClientCertificate};
use weir_lab::{Lab, LabOptions, LabSecurity, SecondListener};

use super::foreign::{aiokafka_driver, run_driver_with};
use super::logins::{UserStore, plain_as, secured_client, topic_errors};
use super::messages::{Ids, JsonConnection};
use super::support::*;
use super::tools::tool;

/// Lifetime of logins at the broker, in milliseconds.
const SESSION_MS: &str = "2500";
pub(crate) const SERVICE_PASSWORD: &str = "service-secret";
// Types of resources and operations in ACLs.
const TOPIC: i8 = 2;
const USER_RESOURCE: i8 = 7;
const ALL: i8 = 2;
const CREATE_TOKENS: i8 = 13;

/// A broker with an authorizer, and a listener with the users `svc-a` and `svc-b`, whose logins
/// end soon. Connections without a login are those of a super user.
pub(crate) struct GuardedBroker {
    lab: Lab,
    pub(crate) secured: String,
}

pub(crate) fn guarded() -> &'static GuardedBroker {
    static GUARDED: OnceLock<GuardedBroker> = OnceLock::new();
    GUARDED.get_or_init(|| GuardedBroker::start("PLAIN", &[]))
}

impl GuardedBroker {
    fn start(mechanisms: &str, more: &[(&str, &str)]) -> Self {
        let port = weir_lab::ports::free_port().expect("a port");
        let module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
        let users = ["svc-a", "svc-b"].map(|user| format!("user_{user}=\"{SERVICE_PASSWORD}\""));
        let jaas = format!("{module} {};", users.join(" "));
        let second = "listener.name.second";
        let properties = [
            (
                "listener.security.protocol.map".to_owned(),
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECOND:SASL_PLAINTEXT",
            ),
            (format!("{second}.sasl.enabled.mechanisms"), mechanisms),
            (format!("{second}.plain.sasl.jaas.config"), &jaas),
            (
                format!("{second}.plain.connections.max.reauth.ms"),
                SESSION_MS,
            ),
            (
                "authorizer.class.name".to_owned(),
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            ),
            ("super.users".to_owned(), "User:ANONYMOUS"),
            ("allow.everyone.if.no.acl.found".to_owned(), "true"),
        ];
        let more = more.iter().map(|(key, value)| ((*key).to_owned(), *value));
        let properties = properties.into_iter().chain(more);
        let lab = lab_with(LabOptions {
            second_listeners: vec![SecondListener {
                port,
                advertised_port: port,
            }],
            properties: properties
                .map(|(key, value)| (key, value.to_owned()))
                .collect(),
            ..LabOptions::default()
        });
        Self {
            lab,
            secured: format!("127.0.0.1:{port}"),
        }
    }

    /// Allows an operation on a resource, and denies it to all others.
    fn allow(&self, principal: &str, (kind, name): (i8, &str), operation: i8) {
        let address = self.lab.bootstrap().parse().expect("an address");
        let acl = json!({"Creations": [{
            "ResourceType": kind, "ResourceName": name, "ResourcePatternType": 3,
            "Principal": principal, "Host": "*", "Operation": operation, "PermissionType": 3,
        }]});
        let made = JsonConnection::connect(address).exchange(30, 3, &acl, &Ids::new());
        assert_eq!(made["Results"][0]["ErrorCode"], 0, "{made}");
    }
}

/// A file of credentials.
pub(crate) struct CredentialStore {
    dir: tempfile::TempDir,
}

impl CredentialStore {
    pub(crate) fn new(text: &str) -> Self {
        let store = Self {
            dir: tempfile::tempdir().expect("a directory"),
        };
        store.write(text);
        store
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("credentials.toml")
    }

    pub(crate) fn write(&self, text: &str) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, text).expect("writes");
        let mode = PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&new, mode).expect("sets the mode");
        std::fs::rename(&new, self.path()).expect("renames");
    }

    pub(crate) fn table(&self, mode: &str) -> String {
        let path = self.path();
        format!("[cluster.broker_identity]\nmode = \"{mode}\"\ncredentials = {path:?}\n")
    }
}

pub(crate) fn service(table: &str, user: &str, password: &str) -> String {
    format!(
        "[\"{table}\"]\nsasl.mechanism = \"PLAIN\"\nsasl.username = \"{user}\"\n\
         sasl.password = \"{password}\"\n"
    )
}

fn upstream_logins(proxy: &TestProxy, mode: &str, outcome: &str) -> u64 {
    let labels = format!("cluster=\"default\",mode=\"{mode}\",outcome=\"{outcome}\"");
    proxy.metric(&format!("weir_proxy_upstream_logins_total{{{labels}}}"))
}

/// Fails if a page of the admin port shows one of the secrets.
pub(crate) fn assert_hidden(proxy: &TestProxy, secrets: &[&str]) {
    for path in ["/metrics", "/connections", "/ready", "/"] {
        let page = proxy.page(path);
        for secret in secrets {
            assert!(!page.contains(secret), "{path} shows a secret");
        }
    }
}

/// Returns a table with the login and certificate of the clients of a lab.
fn credential_of(lab: &Lab) -> String {
    let files = lab.security_files().expect("files");
    let mut text = "[default]\n".to_owned();
    let mut put = |key: &str, value: &str| {
        text += &format!("{key:?} = {}\n", toml::Value::from(value));
    };
    for (key, value) in lab.client_properties() {
        if key.starts_with("sasl.") {
            put(&key, &value);
        }
    }
    if lab.security() == LabSecurity::Mtls {
        let own = files.client(ClientCertificate::Valid);
        put("certificate", &own.pem().display().to_string());
        put("key", &own.pem().display().to_string());
    }
    text
}

fn trusting(authority: &Path) -> String {
    format!("[cluster.upstream_tls]\nca = {authority:?}\n")
}

#[test]
fn one_credential_opens_brokers_with_each_mechanism() {
    for security in [
        LabSecurity::SaslPlain,
        LabSecurity::Scram,
        LabSecurity::Oauth,
        LabSecurity::Mtls,
    ] {
        let lab = lab_with(LabOptions {
            security,
            ..LabOptions::default()
        });
        let files = lab.security_files().expect("files");
        let store = CredentialStore::new(&credential_of(&lab));
        let trust = trusting(&files.authority().pem());
        let proxy = proxy_to(&lab.bootstrap(), &(store.table("one") + &trust));
        // The probe finds the brokers before a client comes.
        await_that(&format!("the brokers with {security}"), || {
            proxy.get().is_ready() && !proxy.get().brokers("default").is_empty()
        });
        let topic = topic(&proxy.bootstrap(), "one", 2, 1);
        let values = numbered("one", 300);
        produce(&client_config(&proxy.bootstrap()), &topic, &values);
        assert_eq!(consume(&proxy.bootstrap(), &topic, 300), values);
        let has_login = security != LabSecurity::Mtls;
        assert_eq!(upstream_logins(&proxy, "one", "accepted") > 0, has_login);
        assert_eq!(upstream_logins(&proxy, "one", "failed"), 0, "{security}");
        assert_hidden(&proxy, &[files.user_password()]);
        // Clients cannot log in as someone else.
        let mut raw = Raw::connect(proxy.address);
        raw.send(&request(17, 1, 1, &[0, 5, b'P', b'L', b'A', b'I', b'N']));
        assert!(raw.until_closed().is_empty());
        proxy.shut_down();
        lab.down().expect("the broker ends");
    }
}

#[test]
fn swapped_principals_have_the_rights_of_their_credentials() {
    let broker = guarded();
    let own = topic(&broker.lab.bootstrap(), "own", 1, 1);
    broker.allow("User:svc-a", (TOPIC, &own), ALL);

    let mut users = UserStore::new();
    for name in ["alice", "bert", "carl"] {
        users.set_user(name, PASSWORD);
    }
    let rows = |password: &str| {
        [
            service("User:alice", "svc-a", password),
            service("User:bert", "svc-b", SERVICE_PASSWORD),
        ]
        .concat()
    };
    let store = CredentialStore::new(&rows(SERVICE_PASSWORD));
    let tables = store.table("swap") + &users.table("failed_delay_ms = 0");
    let proxy = proxy_to(&broker.secured, &tables);
    await_that("the proxy to be ready", || proxy.get().is_ready());
    let login = |name: &str| {
        let mut raw = Raw::connect(proxy.address);
        let code = plain_as(&mut raw, name, PASSWORD).error_code;
        (code, raw)
    };
    // The authorizer applies the rule a little later.
    await_that("the rights of svc-a and svc-b", || {
        let ((0, mut alice), (0, mut bert)) = (login("alice"), login("bert")) else {
            return false;
        };
        let codes = [&mut alice, &mut bert].map(|raw| topic_errors(raw, &[&own]));
        codes == [[0], [29]]
    });
    // Nothing goes to a broker for a principal without a credential.
    let before = upstream_logins(&proxy, "swap", "accepted");
    let (code, mut raw) = login("carl");
    assert_eq!(code, 58);
    assert!(raw.until_closed().is_empty());
    assert_eq!(upstream_logins(&proxy, "swap", "unmapped"), 1);
    assert_eq!(upstream_logins(&proxy, "swap", "accepted"), before);

    // A credential that the broker refuses, until the file is changed again.
    store.write(&rows("revoked-secret"));
    await_that("the new file", || login("alice").0 == 58);
    assert!(upstream_logins(&proxy, "swap", "failed") >= 1);
    assert_eq!(login("bert").0, 0);
    store.write(&rows(SERVICE_PASSWORD));
    await_that("the last file", || login("alice").0 == 0);
    assert_hidden(&proxy, &[SERVICE_PASSWORD, "revoked-secret"]);
}

/// Tokens expire after 10 s. The broker ends logins with them at that time.
#[test]
fn delegated_principals_have_their_own_rights() {
    let scram = "listener.name.second.scram-sha-512.sasl.jaas.config";
    let module = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let broker = GuardedBroker::start(
        "PLAIN,SCRAM-SHA-512",
        &[
            (scram, module),
            ("delegation.token.secret.key", "token-secret"),
            ("delegation.token.expiry.time.ms", "10000"),
        ],
    );
    let own = topic(&broker.lab.bootstrap(), "own", 1, 1);
    broker.allow("User:alice", (TOPIC, &own), ALL);
    broker.allow("User:svc-a", (USER_RESOURCE, "*"), CREATE_TOKENS);
    let mut users = UserStore::new();
    for name in ["alice", "bert"] {
        users.set_user(name, PASSWORD);
    }
    let store = CredentialStore::new(&service("default", "svc-a", SERVICE_PASSWORD));
    let tables = store.table("delegate") + &users.table("failed_delay_ms = 0");
    let proxy = proxy_to(&broker.secured, &tables);
    await_that("the proxy to be ready", || proxy.get().is_ready());
    let login = |proxy: &TestProxy, name: &str| {
        let mut raw = Raw::connect(proxy.address);
        let code = plain_as(&mut raw, name, PASSWORD).error_code;
        (code, raw)
    };
    await_that("the rights of alice and bert", || {
        let ((0, mut alice), (0, mut bert)) = (login(&proxy, "alice"), login(&proxy, "bert"))
        else {
            return false;
        };
        let codes = [&mut alice, &mut bert].map(|raw| topic_errors(raw, &[&own]));
        codes == [[0], [29]]
    });

    // Alice writes on, longer than her first tokens are valid.
    let mut config = secured_client(&proxy, "PLAIN");
    config.set("sasl.username", "alice");
    let producer: BaseProducer = config.create().expect("valid");
    let (start, mut sent) = (std::time::Instant::now(), Vec::new());
    await_that("further tokens", || {
        let more = [format!("delegated-{:06}", sent.len())];
        send_all(&producer, &own, &more);
        sent.extend(more);
        producer.flush(TEST_TIMEOUT).expect("stored");
        start.elapsed() > std::time::Duration::from_secs(15)
    });
    assert_eq!(consume_with(config, &own, sent.len()), sent);
    assert_eq!(upstream_logins(&proxy, "delegate", "failed"), 0);
    assert!(upstream_logins(&proxy, "delegate", "accepted") > 8);
    assert_hidden(&proxy, &[SERVICE_PASSWORD]);

    // A credential without the right, and brokers without tokens.
    store.write(&service("default", "svc-b", SERVICE_PASSWORD));
    users.set_user("carl", PASSWORD);
    await_that("the new file", || login(&proxy, "carl").0 == 58);
    let without = proxy_to(&guarded().secured, &tables);
    await_that("the proxy to be ready", || without.get().is_ready());
    assert_eq!(login(&without, "alice").0, 58);
    assert_eq!(upstream_logins(&without, "delegate", "failed"), 1);
}

/// The broker ends each login after 2.5 s; the clients have none, or one of an hour.
#[test]
fn proxy_repeats_its_login_under_load() {
    let broker = guarded();
    let users = UserStore::new();
    let store = CredentialStore::new(&service("default", "svc-a", SERVICE_PASSWORD));
    let tables = store.table("one") + &users.table("session_ms = 3600000");
    let proxy = proxy_to(&broker.secured, &tables);
    await_that("the proxy to be ready", || proxy.get().is_ready());
    let topic = topic(&broker.lab.bootstrap(), "renewed", 2, 1);
    let mut config = secured_client(&proxy, "SCRAM-SHA-512");
    config.set("enable.idempotence", "true");
    let producer: BaseProducer = config.create().expect("valid");
    let mut sent = Vec::new();
    await_that("repeated logins", || {
        let more: Vec<_> = (sent.len()..sent.len() + 200)
            .map(|number| format!("renewed-{number:06}"))
            .collect();
        send_all(&producer, &topic, &more);
        sent.extend(more);
        producer.flush(TEST_TIMEOUT).expect("stored");
        // A bootstrap and a broker connection.
        upstream_logins(&proxy, "one", "accepted") >= 10
    });
    let values = consume_with(secured_client(&proxy, "PLAIN"), &topic, sent.len());
    assert_eq!(values, sent);
    assert_eq!(upstream_logins(&proxy, "one", "failed"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_connect_failures_total"), 0);
}

#[test]
fn java_and_aiokafka_use_the_credential_of_the_proxy() {
    let broker = guarded();
    let store = CredentialStore::new(&service("default", "svc-b", SERVICE_PASSWORD));
    let proxy = proxy_to(&broker.secured, &store.table("one"));
    await_that("the proxy to be ready", || proxy.get().is_ready());
    let records = topic(&broker.lab.bootstrap(), "foreign", 2, 1);
    run_driver_with(aiokafka_driver(), &proxy, &records, &[]);
    let records = topic(&broker.lab.bootstrap(), "java", 1, 1);
    let to = proxy.bootstrap();
    // Eight seconds, more than three logins at the broker.
    let output = tool(
        "VerifiableProducer",
        &[
            "--bootstrap-server",
            &to,
            "--topic",
            &records,
            "--max-messages",
            "2000",
            "--throughput",
            "250",
        ],
    );
    assert!(output.contains("\"acked\":2000"), "{output}");
    assert!(upstream_logins(&proxy, "one", "accepted") >= 5);
    assert_eq!(upstream_logins(&proxy, "one", "failed"), 0);
}

/// An authority of clients with its files in a directory.
struct ClientCertificates {
    authority: Authority,
    dir: PathBuf,
}

impl ClientCertificates {
    fn new(dir: &Path) -> Self {
        let authority = Authority::new("clients").expect("an authority");
        let certificates = Self {
            authority,
            dir: dir.to_owned(),
        };
        certificates.write("clients.pem", certificates.authority.certificate_pem());
        certificates
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).expect("writes");
    }

    /// Issues a certificate and returns the keys of its table.
    fn issue(&self, name: &str, host: &str) -> String {
        let request = CertificateRequest {
            name,
            hosts: &[host],
            usage: CertificateUsage::Client,
            is_expired: false,
        };
        let issued = self.authority.issue(&request).expect("a certificate");
        self.write(&format!("{name}.pem"), &issued.certificate_pem);
        self.write(&format!("{name}.key"), &issued.key_pem);
        format!("certificate = \"{name}.pem\"\nkey = \"{name}.key\"\n")
    }

    /// Starts a proxy with principals of these certificates, of whom anna may read a topic.
    fn proxy(&self, principals: &str, topic: &str) -> TestProxy {
        proxy(&format!(
            "advertised_host = \"localhost\"\n[cluster.tls]\ncertificate = {:?}\nkey = {:?}\n\
             client_ca = {:?}\n[cluster.certificate_principals]\n{principals}\n\
             [cluster.access]\n[[cluster.access.rule]]\neffect = \"allow\"\n\
             principals = [\"User:anna\"]\noperations = [\"read\"]\ntopics = [{topic:?}]\n",
            fixture("server.pem"),
            fixture("server.key"),
            self.dir.join("clients.pem"),
        ))
    }
}

/// Starts a proxy with these tables in front of another one.
fn in_front_of(inner: &TestProxy, tables: &str) -> TestProxy {
    let upstream = format!("localhost:{}", inner.address.port());
    proxy_to(
        &upstream,
        &(tables.to_owned() + &trusting(&fixture("ca.pem"))),
    )
}

const COMMON_NAME: &str = "rules = ['RULE:^(?:.*,)?CN=([^,]*)(?:,.*)?$/$1/L']";

/// One proxy has certificates of clients, and another proxy in front of it shows them.
#[test]
fn subjects_of_certificates_become_principals() {
    let own = topic(&broker(), "own", 1, 1);
    let foreign = topic(&broker(), "foreign", 1, 1);
    let store = CredentialStore::new("");
    let certificates = ClientCertificates::new(store.dir.path());
    for (principals, name, host) in [
        (COMMON_NAME, "ANNA", "desk-7"),
        ("name = \"dns\"", "x", "anna"),
    ] {
        let inner = certificates.proxy(principals, &own);
        store.write(&format!("[default]\n{}", certificates.issue(name, host)));
        let outer = in_front_of(&inner, &store.table("one"));
        await_that("the inner proxy to be ready", || outer.get().is_ready());
        let mut raw = Raw::connect(outer.address);
        assert_eq!(topic_errors(&mut raw, &[&own, &foreign]), [0, 29]);
        let page = inner.page("/connections");
        assert!(page.contains("\"principal\":\"User:anna\""), "{page}");
    }
    // No rule matches.
    let inner = certificates.proxy("rules = ['RULE:^OU=.*$/x/']", &own);
    store.write(&format!(
        "[default]\n{}",
        certificates.issue("ANNA", "desk-7")
    ));
    let outer = in_front_of(&inner, &store.table("one"));
    let mut raw = Raw::connect(outer.address);
    raw.send(&request(18, 0, 1, &[]));
    assert!(raw.until_closed().is_empty());
    assert_eq!(inner.metric("weir_proxy_requests_total"), 0);
}

/// ApiVersions before the login uses another certificate, so the proxy connects again.
#[test]
fn swapped_principals_have_certificates_of_their_own() {
    let own = topic(&broker(), "own", 1, 1);
    let mut users = UserStore::new();
    for name in ["alice", "bert"] {
        users.set_user(name, PASSWORD);
    }
    let store = CredentialStore::new("");
    let certificates = ClientCertificates::new(store.dir.path());
    let table = |table: &str, name: &str| {
        let keys = certificates.issue(name, "desk-7");
        format!("[\"{table}\"]\n{keys}")
    };
    let tables = [
        table("probe", "probe"),
        table("User:alice", "anna"),
        table("User:bert", "other"),
    ];
    store.write(&tables.concat());
    let inner = certificates.proxy(COMMON_NAME, &own);
    let outer = in_front_of(&inner, &(store.table("swap") + &users.table("")));
    await_that("the inner proxy to be ready", || outer.get().is_ready());
    for (user, expected) in [("alice", 0), ("bert", 29)] {
        for asks_first in [true, false] {
            let mut raw = Raw::connect(outer.address);
            if asks_first {
                let versions = raw.exchange(2, &ApiVersionsRequest::default());
                assert_eq!(versions.error_code, 0);
            }
            assert_eq!(plain_as(&mut raw, user, PASSWORD).error_code, 0);
            let errors = topic_errors(&mut raw, &[&own]);
            assert_eq!(errors, [expected], "{user}, {asks_first}");
        }
    }
    assert_eq!(upstream_logins(&outer, "swap", "failed"), 0);
}
