//! Logins that end at the proxy, with real clients and a broker that has none.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer};
use weir_sasl::users::{Credential, ITERATIONS_MIN, UserFile};
use weir_security::{ScramHash, Secret};

use super::foreign::{aiokafka_driver, run_driver_with};
use super::support::*;
use super::tools::tool;

const MECHANISMS: [&str; 3] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/// A file of users in a directory of its own.
pub(crate) struct UserStore {
    pub(crate) dir: tempfile::TempDir,
    users: UserFile,
}

impl UserStore {
    pub(crate) fn new() -> Self {
        let mut store = Self {
            dir: tempfile::tempdir().expect("a directory"),
            users: UserFile::default(),
        };
        store.set(PASSWORD);
        store
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("users")
    }

    fn set(&mut self, password: &str) {
        self.set_user(USER, password);
    }

    fn remove(&mut self, name: &str) {
        assert!(self.users.remove(name));
        self.write();
    }

    pub(crate) fn set_user(&mut self, name: &str, password: &str) {
        for (hash, salt) in [(ScramHash::Sha256, 1), (ScramHash::Sha512, 2)] {
            let password = Secret::new(password);
            let credential = Credential::derive(hash, &password, vec![salt; 16], ITERATIONS_MIN);
            self.users.set(name, hash, &credential).expect("valid");
        }
        self.write();
    }

    fn write(&self) {
        let new = self.dir.path().join("new");
        std::fs::write(&new, self.users.to_string()).expect("writes");
        let mode = PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&new, mode).expect("sets the mode");
        std::fs::rename(&new, self.path()).expect("renames");
    }

    /// Starts a proxy with these users and more keys of the table.
    fn proxy(&self, keys: &str) -> TestProxy {
        proxy(&self.table(keys))
    }

    /// Returns the table with these users and more keys.
    pub(crate) fn table(&self, keys: &str) -> String {
        let users = self.path();
        format!(
            "[cluster.identity]\nmechanisms = {MECHANISMS:?}\nusers = {users:?}\n\
             allow_plain_text = true\n{keys}\n"
        )
    }
}

pub(crate) fn secured_client(proxy: &TestProxy, mechanism: &str) -> ClientConfig {
    let mut config = client_config(&proxy.bootstrap());
    config
        .set("security.protocol", "sasl_plaintext")
        .set("sasl.mechanism", mechanism)
        .set("sasl.username", USER)
        .set("sasl.password", PASSWORD);
    config
}

fn logins(proxy: &TestProxy, mechanism: &str, outcome: &str) -> u64 {
    let labels = format!("cluster=\"default\",mechanism=\"{mechanism}\",outcome=\"{outcome}\"");
    proxy.metric(&format!("weir_proxy_logins_total{{{labels}}}"))
}

fn mechanism(name: &str) -> SaslHandshakeRequest {
    SaslHandshakeRequest::default().with_mechanism(StrBytes::from_string(name.to_owned()))
}

/// Sends user and password.
fn plain(raw: &mut Raw, password: &str) -> SaslAuthenticateResponse {
    plain_as(raw, USER, password)
}

pub(crate) fn plain_as(raw: &mut Raw, user: &str, password: &str) -> SaslAuthenticateResponse {
    assert_eq!(raw.exchange(1, &mechanism("PLAIN")).error_code, 0);
    let token = Bytes::from(format!("\0{user}\0{password}"));
    raw.exchange(
        1,
        &SaslAuthenticateRequest::default().with_auth_bytes(token),
    )
}

#[test]
fn users_of_the_file_log_in_with_each_mechanism() {
    let store = UserStore::new();
    let proxy = store.proxy("");
    for name in MECHANISMS {
        let topic = topic(&broker(), "login", 2, 1);
        let client_config = secured_client(&proxy, name);
        let values = numbered("login", 100);
        produce(&client_config, &topic, &values);
        assert_eq!(consume_with(client_config, &topic, 100), values);
        assert!(logins(&proxy, name, "accepted") >= 2, "{name}");
        assert_eq!(logins(&proxy, name, "failed"), 0, "{name}");
        let labels = format!("cluster=\"default\",mechanism=\"{name}\"");
        let timed = proxy.metric(&format!("weir_proxy_login_seconds_count{{{labels}}}"));
        assert_eq!(timed, logins(&proxy, name, "accepted"), "{name}");
    }
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(plain(&mut raw, PASSWORD).session_lifetime_ms, 0);
    let page = proxy.page("/connections");
    assert!(page.contains("\"principal\":\"User:tester\""), "{page}");
    let requests = "weir_proxy_principal_requests_total{cluster=\"default\",\
                    principal=\"User:tester\"}";
    assert!(proxy.metric(requests) > 20);
    let bytes = "weir_proxy_principal_bytes_total{cluster=\"default\",\
                 principal=\"User:tester\",direction=\"response\"}";
    assert!(proxy.metric(bytes) > 3 * 100 * "login-000000".len() as u64);
    // The APIs of the brokers' own logins are not offered.
    let versions = raw.exchange(2, &ApiVersionsRequest::default());
    let offered = |key| versions.api_keys.iter().any(|api| api.api_key == key);
    assert!(offered(17) && offered(36) && !offered(38) && !offered(51));
}

/// Returns the error codes of topics in a response to Metadata.
pub(crate) fn topic_errors(raw: &mut Raw, topics: &[&str]) -> Vec<i16> {
    let name = |name: &&str| TopicName(StrBytes::from_string((*name).to_owned()));
    let topics = topics
        .iter()
        .map(|topic| MetadataRequestTopic::default().with_name(Some(name(topic))));
    let request = MetadataRequest::default()
        .with_topics(Some(topics.collect()))
        .with_allow_auto_topic_creation(false);
    let response = raw.exchange(9, &request);
    response
        .topics
        .iter()
        .map(|topic| topic.error_code)
        .collect()
}

/// Returns a rule that allows to read a topic.
fn rule(principal: &str, topic: &str) -> String {
    format!(
        "[[cluster.access.rule]]\neffect = \"allow\"\nprincipals = [\"{principal}\"]\n\
         operations = [\"read\"]\ntopics = [\"{topic}\"]\n"
    )
}

#[test]
fn access_rules_apply_to_the_principal_of_the_login() {
    let store = UserStore::new();
    let own = topic(&broker(), "own", 1, 1);
    let foreign = topic(&broker(), "foreign", 1, 1);
    let rules = [rule("User:tester", &own), rule("User:ANONYMOUS", &foreign)].concat();
    let proxy = store.proxy(&format!("[cluster.access]\n{rules}"));
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(plain(&mut raw, PASSWORD).error_code, 0);
    let topics = [own.as_str(), &foreign];
    assert_eq!(topic_errors(&mut raw, &topics), [0, 29]);
    assert_eq!(errors(&proxy, "Metadata", 29), 1);
    // A request before the login is not decided about.
    let mut early = Raw::connect(proxy.address);
    early.send(&request(3, 1, 1, &[0, 0, 0, 0]));
    assert!(early.until_closed().is_empty());
}

#[test]
fn reload_changes_the_rules_of_open_connections() {
    let store = UserStore::new();
    let own = topic(&broker(), "own", 1, 1);
    let later = topic(&broker(), "later", 1, 1);
    let first = rule("User:tester", &own);
    let proxy = store.proxy(&format!("[cluster.access]\n{first}"));
    let original = proxy.config_text();
    let reload = |text: &str, more: &str| {
        proxy.write_config(text, more);
        proxy.get().reload().expect("reloaded").closing
    };
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(plain(&mut raw, PASSWORD).error_code, 0);
    let topics = [own.as_str(), &later];
    assert_eq!(topic_errors(&mut raw, &topics), [0, 29]);
    assert_eq!(reload(&original, &rule("User:tester", &later)), 0);
    assert_eq!(topic_errors(&mut raw, &topics), [0, 0]);
    assert_eq!(reload(&original, ""), 0);
    assert_eq!(topic_errors(&mut raw, &topics), [0, 29]);
    // A connection that has logged in does not become one without a login, nor the reverse.
    let (without, _) = original.split_once("[cluster.identity]").expect("a table");
    assert_eq!(reload(without, ""), 1);
    assert!(raw.until_closed().is_empty());
    let mut open = Raw::connect(proxy.address);
    assert_eq!(topic_errors(&mut open, &topics), [0, 0]);
    assert_eq!(reload(&original, ""), 1);
    assert!(open.until_closed().is_empty());
}

#[test]
fn aiokafka_logs_in_with_scram() {
    let store = UserStore::new();
    let proxy = store.proxy("");
    let topic = topic(&broker(), "login", 2, 1);
    let client_config = serde_json::json!({
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    });
    let driver = aiokafka_driver();
    run_driver_with(driver, &proxy, &topic, &[&client_config.to_string()]);
}

/// Kafka's Java client begins again at 85 to 95 % of a session.
#[test]
fn java_client_repeats_its_login_under_load() {
    let store = UserStore::new();
    let proxy = store.proxy("session_ms = 2000");
    let config = store.dir.path().join("client.properties");
    let module = "org.apache.kafka.common.security.scram.ScramLoginModule";
    let text = format!(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n\
         sasl.jaas.config={module} required username=\"{USER}\" password=\"{PASSWORD}\";\n"
    );
    std::fs::write(&config, text).expect("writes");
    let (config, to, name) = (
        config.display().to_string(),
        proxy.bootstrap(),
        unique("java"),
    );
    let create = ["--create", "--topic", &name, "--partitions", "1"];
    let at = ["--bootstrap-server", &to, "--command-config", &config];
    tool("TopicCommand", &[&at[..], &create].concat());
    let before = logins(&proxy, "SCRAM-SHA-512", "accepted");
    let made = [
        "--topic",
        &name,
        "--max-messages",
        "3000",
        "--throughput",
        "250",
    ];
    let at = ["--bootstrap-server", &to, "--command-config", &config];
    let output_text = tool("VerifiableProducer", &[&at[..], &made].concat());
    assert!(output_text.contains("\"acked\":3000"), "{output_text}");
    // Twelve seconds on a bootstrap and a broker connection, which begin with a login each. A
    // client without CPU time sends the records in fewer seconds.
    let count = logins(&proxy, "SCRAM-SHA-512", "accepted") - before;
    assert!(count >= 4, "{count}");
    assert_eq!(
        proxy.metric("weir_proxy_sessions_expired_total{cluster=\"default\"}"),
        0
    );
}

#[test]
fn librdkafka_repeats_its_login_under_load() {
    let store = UserStore::new();
    let proxy = store.proxy("session_ms = 2000");
    let topic = topic(&broker(), "login", 1, 1);
    let producer: BaseProducer = secured_client(&proxy, "PLAIN").create().expect("valid");
    let mut count = 0;
    await_that("five logins", || {
        send_all(&producer, &topic, &numbered("under", 10));
        count += 10;
        producer.flush(TEST_TIMEOUT).expect("stored");
        logins(&proxy, "PLAIN", "accepted") >= 5
    });
    let values = consume_with(secured_client(&proxy, "PLAIN"), &topic, count);
    assert_eq!(values.len(), count);
    assert_eq!(
        proxy.metric("weir_proxy_sessions_expired_total{cluster=\"default\"}"),
        0
    );
}

#[test]
fn failed_logins_get_the_errors_of_brokers() {
    let store = UserStore::new();
    let proxy = store.proxy("");
    let mut raw = Raw::connect(proxy.address);
    let begin = Instant::now();
    let response = plain(&mut raw, "wrong");
    assert_eq!(response.error_code, 58);
    assert_eq!(
        response.error_message.as_deref(),
        Some("Authentication failed")
    );
    assert!(
        begin.elapsed().as_millis() >= 100,
        "the response is delayed"
    );
    assert!(raw.until_closed().is_empty());

    let mut raw = Raw::connect(proxy.address);
    let versions = raw.exchange(2, &ApiVersionsRequest::default());
    assert_eq!(versions.error_code, 0, "before the login");
    let response = raw.exchange(1, &mechanism("GSSAPI"));
    let names: Vec<_> = response.mechanisms.iter().map(|it| it.as_str()).collect();
    assert_eq!((response.error_code, names), (33, MECHANISMS.to_vec()));
    assert!(raw.until_closed().is_empty());

    // Without a login the connection is closed without a response, as by a broker.
    for early in [
        request(3, 1, 1, &0_i32.to_be_bytes()),
        request(36, 1, 1, &[0; 4]),
    ] {
        let mut raw = Raw::connect(proxy.address);
        raw.send(&early);
        assert!(raw.until_closed().is_empty());
    }
    assert_eq!(logins(&proxy, "PLAIN", "failed"), 1);
    assert_eq!(logins(&proxy, "other", "failed"), 2);
    assert_eq!(errors(&proxy, "SaslAuthenticate", 58), 1);
    assert_eq!(errors(&proxy, "SaslHandshake", 33), 1);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
    proxy.await_metric("weir_proxy_connections", 0);
}

#[test]
fn expired_login_closes_at_the_next_request() {
    let store = UserStore::new();
    let proxy = store.proxy("session_ms = 300");
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(plain(&mut raw, PASSWORD).session_lifetime_ms, 300);
    await_that("the end of the session", || {
        raw.send(&request(18, 0, 1, &[]));
        let mut size = [0; 4];
        let read = std::io::Read::read(&mut raw.stream, &mut size);
        let is_closed = !matches!(read, Ok(4));
        if !is_closed {
            let mut rest = vec![0; i32::from_be_bytes(size) as usize];
            std::io::Read::read_exact(&mut raw.stream, &mut rest).expect("the rest");
        }
        is_closed
    });
    let metric = "weir_proxy_sessions_expired_total{cluster=\"default\"}";
    proxy.await_metric(metric, 1);
    // A second login in time continues the connection.
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(plain(&mut raw, PASSWORD).error_code, 0);
    assert_eq!(plain(&mut raw, PASSWORD).error_code, 0);
    assert_eq!(
        raw.exchange(1, &mechanism("PLAIN")).error_code,
        34,
        "too soon"
    );
}

#[test]
fn repeated_failures_of_an_address_are_limited() {
    let store = UserStore::new();
    let proxy = store.proxy("failed_delay_ms = 0");
    await_that("a limited login", || {
        let mut raw = Raw::connect(proxy.address);
        assert_eq!(plain(&mut raw, "wrong").error_code, 58);
        logins(&proxy, "PLAIN", "limited") > 0
    });
    assert!(logins(&proxy, "PLAIN", "failed") >= 10);
    // The right password waits as well.
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(plain(&mut raw, PASSWORD).error_code, 58);
    await_that("the end of the limit", || {
        let mut raw = Raw::connect(proxy.address);
        plain(&mut raw, PASSWORD).error_code == 0
    });
}

#[test]
fn slow_and_excessive_logins_are_closed() {
    let store = UserStore::new();
    let proxy = store.proxy("login_timeout_ms = 1000");
    let mut slow = Raw::connect(proxy.address);
    assert_eq!(slow.exchange(1, &mechanism("SCRAM-SHA-256")).error_code, 0);
    let mut large = Raw::connect(proxy.address);
    large.send(&524_289_i32.to_be_bytes());
    assert!(large.until_closed().is_empty());
    let mut garbage = Raw::connect(proxy.address);
    assert_eq!(
        garbage.exchange(1, &mechanism("SCRAM-SHA-512")).error_code,
        0
    );
    let token = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(vec![0xff; 5_000]));
    assert_eq!(garbage.exchange(2, &token).error_code, 58);
    assert!(garbage.until_closed().is_empty());
    assert!(slow.until_closed().is_empty());
    // On a busy machine, others may have taken too long, too. Event loops publish their counters
    // after they have closed connections.
    await_that("the timeout in the metrics", || {
        proxy.metric("weir_proxy_timeouts_total") >= 1
    });
    assert_eq!(proxy.metric("weir_proxy_broker_connections"), 0);
}

#[test]
fn changed_file_of_users_is_read_again() {
    let mut store = UserStore::new();
    let proxy = store.proxy("");
    let try_password = |password: &str| {
        let mut raw = Raw::connect(proxy.address);
        plain(&mut raw, password).error_code
    };
    assert_eq!(try_password(PASSWORD), 0);
    store.set("other");
    proxy.get().reload_certificates();
    assert_eq!(
        try_password(PASSWORD),
        58,
        "also from the cache of passwords"
    );
    assert_eq!(try_password("other"), 0);
    // The proxy also looks at the file by itself.
    store.set("third");
    await_that("the new users", || try_password("third") == 0);
}

#[test]
fn removed_user_is_closed_at_the_next_request() {
    let mut store = UserStore::new();
    store.set_user("second", PASSWORD);
    let proxy = store.proxy("");
    let [mut first, mut second] = [USER, "second"].map(|user| {
        let mut raw = Raw::connect(proxy.address);
        assert_eq!(plain_as(&mut raw, user, PASSWORD).error_code, 0);
        raw
    });
    let brokers = |raw: &mut Raw| raw.exchange(1, &MetadataRequest::default()).brokers.len();
    assert_eq!((brokers(&mut first), brokers(&mut second)), (1, 1));
    // A new password does not end the login.
    store.set("other");
    proxy.get().reload_certificates();
    assert_eq!(brokers(&mut first), 1);
    store.remove(USER);
    proxy.get().reload_certificates();
    first.send(&request(3, 1, 1, &[0; 4]));
    assert!(first.until_closed().is_empty());
    assert_eq!(brokers(&mut second), 1);
    // The same when a reload names another file.
    let none = UserStore::new();
    let text = proxy.config_text();
    let [old, new] = [&store, &none].map(|store| format!("{:?}", store.path()));
    proxy.write_config(&text.replace(&old, &new), "");
    assert_eq!(proxy.get().reload().expect("reloaded").closing, 0);
    second.send(&request(3, 1, 1, &[0; 4]));
    assert!(second.until_closed().is_empty());
    let expired = "weir_proxy_sessions_expired_total{cluster=\"default\"}";
    assert!(proxy.metric(expired) >= 1);
}
