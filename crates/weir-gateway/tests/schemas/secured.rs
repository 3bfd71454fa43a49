//! A registry with TLS and a login: correct settings and each mistake.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::json;
use weir_ingest::schemas::ConnectionRegistry;
use weir_lab::RegistrySecurity;
use weir_lab::security::SecurityFiles;

use crate::support::{TestEnv, metric, wait_metric};
use crate::test_env::{TestRegistry, config, param, registered, subscribed};

const FIELDS: [(&str, &str); 2] = [("name", ".name"), ("price", ".price")];
const VALUES: &str = "U,1,1,Ångström|42";
const FAILURES: &str = "weir_gateway_schema_request_failures_total";
const UNDECODED: &str = "weir_gateway_kafka_decode_failures_total";
/// One request per schema, so that the failure of the first one decides.
const ONCE: &str = "wait_ms = 0\nretry_after_ms = 600000";
const WRONG_PASSWORD: &str = "not-the-password";

/// A mistake and a text that its error contains.
struct Mistake {
    name: &'static str,
    parameters: String,
    error: &'static str,
}

#[test]
fn secured_registry_is_read_only_with_correct_settings() {
    let security = RegistrySecurity {
        tls: true,
        basic_auth: true,
    };
    let Some(registry) = TestRegistry::start(security, "registry over TLS with a login") else {
        return;
    };
    let env = TestEnv::new();
    registry.write(&env, "AVRO", 1, &json!({}));
    let earliest = param("record.consume.from", "EARLIEST");
    let files = registry.registry.files().expect("certificates");
    let url = registry.registry.url();
    let (_, password) = registry.registry.login().expect("a login");
    for store in [trust_jks(files, false), trust_pkcs12(files)] {
        let more = registered(&url) + &login(password) + &store + &earliest;
        let gateway = env.ready(config(&env, "AVRO", &FIELDS, &more, ONCE));
        assert_eq!(subscribed(&gateway, &FIELDS).line(), VALUES);
        assert_eq!(metric(&gateway, FAILURES), 0);
        gateway.shut_down();
    }
    for mistake in mistakes(&registry, files) {
        let more = mistake.parameters + &earliest;
        let config = config(&env, "AVRO", &FIELDS, &more, ONCE);
        let error = check(&config.registries[0], mistake.name);
        assert!(error.contains(mistake.error), "{}: {error}", mistake.name);
        assert!(!error.contains(password), "{}: {error}", mistake.name);
        assert!(!error.contains(WRONG_PASSWORD), "{}: {error}", mistake.name);
        let gateway = env.ready(config);
        let client = subscribed(&gateway, &FIELDS);
        wait_metric(&gateway, UNDECODED, |count| count == 1);
        assert_eq!(metric(&gateway, FAILURES), 1, "{}", mistake.name);
        drop(client);
        gateway.shut_down();
    }
}

/// Returns the error of a request, as `weir gateway check` prints it.
fn check(registry: &Option<ConnectionRegistry>, name: &str) -> String {
    let registry = registry.as_ref().expect("a registry");
    registry.client.check().expect_err(name).to_string()
}

fn mistakes(registry: &TestRegistry, files: &SecurityFiles) -> Vec<Mistake> {
    let url = registry.registry.url();
    let (_, password) = registry.registry.login().expect("a login");
    let (correct, trust) = (login(password), trust_jks(files, false));
    // The connector does not check the host by default.
    let verification = "schema.registry.confluent.encryption.hostname.verification.enable";
    let verification = param(verification, "true");
    vec![
        Mistake {
            name: "wrong password",
            parameters: registered(&url) + &login(WRONG_PASSWORD) + &trust,
            error: "login rejected with status 401",
        },
        Mistake {
            name: "no login",
            parameters: registered(&url) + &trust,
            error: "login rejected with status 401",
        },
        Mistake {
            name: "unknown authority",
            parameters: registered(&url) + &correct + &trust_jks(files, true),
            error: "UnknownIssuer",
        },
        Mistake {
            name: "wrong host",
            parameters: registered(&other_host(&url)) + &correct + &trust + &verification,
            error: "not valid for name",
        },
    ]
}

fn login(password: &str) -> String {
    let basic = "schema.registry.confluent.basic.authentication";
    param(&format!("{basic}.enable"), "true")
        + &param(&format!("{basic}.username"), "weir")
        + &param(&format!("{basic}.password"), password)
}

fn trust_jks(files: &SecurityFiles, is_other: bool) -> String {
    let store = match is_other {
        true => files.other_authority(),
        false => files.authority(),
    };
    trust(&store.jks(), "JKS", files.store_password())
}

fn trust_pkcs12(files: &SecurityFiles) -> String {
    trust(
        &files.authority().pkcs12(),
        "PKCS12",
        files.store_password(),
    )
}

fn trust(path: &std::path::Path, kind: &str, password: &str) -> String {
    let store = "schema.registry.confluent.encryption.truststore";
    param(&format!("{store}.path"), &path.display().to_string())
        + &param(&format!("{store}.type"), kind)
        + &param(&format!("{store}.password"), password)
}

/// Returns a URL of the same registry with a host that its certificate does not name.
fn other_host(url: &str) -> String {
    let rest = url.strip_prefix("https://").expect("a URL");
    let (address, path) = rest.split_once('/').expect("a path");
    let address: SocketAddr = address.parse().expect("an address");
    // All of 127.0.0.0/8 is this machine.
    let listener = TcpListener::bind("127.0.0.2:0").expect("a free port");
    let other = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let target = TcpStream::connect(address).expect("the registry");
            forward(&stream, &target);
            forward(&target, &stream);
        }
    });
    format!("https://{other}/{path}")
}

fn forward(from: &TcpStream, to: &TcpStream) {
    let mut from = from.try_clone().expect("a handle");
    let mut to = to.try_clone().expect("a handle");
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}
