//! Kerberos logins, in a build with the feature `gssapi`: a realm with a KDC of its own, a broker
//! that requires them, and the gateway with key tabs and ticket caches. Every mistake must end with
//! one error that names its cause. `make test-kerberos` runs this test.

mod gateway;
mod realm;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gateway::{KerberosClient, StreamClient};
use realm::{CLIENT, REALM, Realm, SERVICE, SilentKdc, free_port, wait_for};
use support::{text, weir};
use weir_kafka::{Admin, KafkaSettings, Producer, ProducerConfig};
use weir_lab::{Lab, LabOptions, SecondListener};

pub(crate) const TOPIC: &str = "kerberos";
const LIMIT: Duration = Duration::from_secs(60);
/// A refused login must be reported before the timeout of the command.
const FAILURE_TIME_MAX: Duration = Duration::from_secs(19);

/// Mistake, and texts of its error.
type Mistake = (KerberosClient, &'static [&'static str]);

#[test]
fn gssapi_connects_only_with_correct_settings() {
    let dir = tempfile::tempdir().expect("a directory");
    let realm = Realm::start(dir.path());
    let (lab, servers) = broker(&realm);
    let producer = fill(&lab);
    let [keytab, cache] = clients(&realm, &servers);
    for client in [&keytab, &cache] {
        connects(client, dir.path(), &producer);
    }
    let (problems, silent) = (mistakes(&realm, &keytab, &cache), SilentKdc::start());
    let mut problems: Vec<String> = problems
        .iter()
        .filter_map(|mistake| problem(mistake, dir.path()))
        .collect();
    let no_response = KerberosClient {
        name: "silent KDC",
        krb5_config: realm.config_with_port("silent.conf", silent.port),
        // A ticket in the cache would be used.
        cache: realm.dir.join("silent.tickets"),
        ..keytab.clone()
    };
    let cause: &[&str] = &["kinit got no response from the KDC within 10 s"];
    problems.extend(problem(&(no_response, cause), dir.path()));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    other_commands_refuse(&keytab, &cache, dir.path());
    gateway_recovers_with_its_kdc(&realm, &keytab, dir.path());
    lab.down().expect("the broker ends");
}

/// Starts a broker with a listener for Kerberos logins, next to the plaintext one of the lab.
fn broker(realm: &Realm) -> (Lab, String) {
    let port = free_port();
    let keytab = realm.keytab(SERVICE);
    let module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true \
                  storeKey=true isInitiator=false doNotPrompt=true";
    let second = "listener.name.second";
    let properties = [
        (
            "listener.security.protocol.map".to_owned(),
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECOND:SASL_PLAINTEXT".to_owned(),
        ),
        (
            format!("{second}.sasl.enabled.mechanisms"),
            "GSSAPI".to_owned(),
        ),
        (
            format!("{second}.gssapi.sasl.jaas.config"),
            format!(
                "{module} keyTab=\"{}\" principal=\"{SERVICE}@{REALM}\";",
                keytab.display()
            ),
        ),
        ("sasl.kerberos.service.name".to_owned(), "kafka".to_owned()),
    ];
    let options = LabOptions {
        heap_mb: 256,
        ready_timeout: Duration::from_secs(180),
        properties: properties.to_vec(),
        jvm_arguments: vec![format!(
            "-Djava.security.krb5.conf={}",
            realm.config().display()
        )],
        second_listeners: vec![SecondListener {
            port,
            advertised_port: port,
        }],
        ..LabOptions::default()
    };
    let lab = Lab::up(&options, &mut |_| (), &AtomicBool::new(false)).expect("a broker");
    (lab, format!("127.0.0.1:{port}"))
}

/// Creates the topic with one record; returns a producer for more.
fn fill(lab: &Lab) -> Producer {
    let kafka = KafkaSettings::plaintext(&lab.bootstrap());
    let admin = Admin::connect(&kafka, LIMIT).expect("the broker responds");
    admin.create_topic(TOPIC, 1, 1, &[]).expect("a topic");
    let config = ProducerConfig {
        kafka,
        ..ProducerConfig::default()
    };
    let producer = Producer::start(&config, Box::new(|_| ())).expect("a producer");
    send(&producer, "first");
    producer
}

fn send(producer: &Producer, value: &str) {
    let value = Some(value.as_bytes());
    let sent = producer.send(TOPIC, Some(0), Some(b"k"), value, &[], None, 1);
    sent.expect("queued");
    assert_eq!(producer.flush(LIMIT), 0, "the record is stored");
}

/// Returns clients with a key tab and with a ticket cache.
fn clients(realm: &Realm, servers: &str) -> [KerberosClient; 2] {
    let keytab = KerberosClient {
        name: "key tab",
        servers: servers.to_owned(),
        service: "kafka",
        keytab: Some((CLIENT.to_owned(), realm.keytab(CLIENT))),
        krb5_config: realm.config(),
        cache: realm.dir.join("keytab.tickets"),
    };
    let cache = KerberosClient {
        name: "ticket cache",
        keytab: None,
        cache: realm.dir.join("cache.tickets"),
        ..keytab.clone()
    };
    realm.ticket(&cache.cache, "1h");
    [keytab, cache]
}

/// Checks, explains, and receives a record from a running gateway.
fn connects(client: &KerberosClient, dir: &Path, producer: &Producer) {
    let name = client.name;
    let check = client.gateway(dir, &["check"], &[]).output();
    let check = check.expect("the command starts");
    let printed = text(&check.stdout);
    assert_eq!(check.status.code(), Some(0), "{name}: {printed}");
    assert!(
        printed.ends_with("the configuration is valid\n"),
        "{printed}"
    );
    let explained = client.explain(dir);
    let errors = text(&explained.stderr);
    assert_eq!(explained.status.code(), Some(0), "{name}: {errors}");
    let mut gateway = client.start(dir);
    let listen = gateway.listen();
    let mut stream = StreamClient::subscribe(&listen);
    send(producer, name);
    assert_eq!(stream.line("U,"), format!("U,1,1,{name}"));
}

fn mistakes(realm: &Realm, keytab: &KerberosClient, cache: &KerberosClient) -> Vec<Mistake> {
    const NO_CREDENTIALS: &[&str] = &["GSSAPI failed", "No Kerberos credentials available"];
    const EXPIRED: &[&str] = &["GSSAPI failed", "Ticket expired"];
    const NO_SERVICE: &[&str] = &["GSSAPI failed", "not found in Kerberos database"];
    const NO_TICKET: &[&str] = &["GSSAPI failed: kinit got no ticket: check principal, key tab"];
    realm.add("other");
    realm.add("outdated");
    realm.change_key("outdated");
    let with_keytab = |name: &'static str, principal: &str, file: &str| KerberosClient {
        name,
        keytab: Some((principal.to_owned(), realm.keytab(file))),
        cache: realm.dir.join(format!("{name}.tickets")),
        ..keytab.clone()
    };
    let expired = realm.dir.join("expired.tickets");
    realm.ticket(&expired, "2s");
    wait_for("the ticket expires", || !realm.is_valid(&expired));
    vec![
        (
            with_keytab("unknown principal", "unknown", CLIENT),
            NO_TICKET,
        ),
        (
            with_keytab("key tab of another", CLIENT, "other"),
            NO_TICKET,
        ),
        (
            with_keytab("outdated key tab", "outdated", "outdated"),
            NO_TICKET,
        ),
        (
            KerberosClient {
                name: "closed port of the KDC",
                krb5_config: realm.config_with_port("closed.conf", free_port()),
                ..with_keytab("", CLIENT, CLIENT)
            },
            NO_TICKET,
        ),
        (
            KerberosClient {
                name: "no ticket",
                cache: realm.dir.join("missing.tickets"),
                ..cache.clone()
            },
            NO_CREDENTIALS,
        ),
        (
            KerberosClient {
                name: "expired ticket",
                cache: expired,
                ..cache.clone()
            },
            EXPIRED,
        ),
        (
            KerberosClient {
                name: "wrong service name",
                service: "kafka2",
                ..cache.clone()
            },
            NO_SERVICE,
        ),
    ]
}

/// Explains with a mistake and returns what is wrong with the outcome.
fn problem((client, causes): &Mistake, dir: &Path) -> Option<String> {
    let (name, started) = (client.name, Instant::now());
    let output = client.explain(dir);
    let (elapsed, errors) = (started.elapsed(), text(&output.stderr));
    println!("{name}, {} ms: {}", elapsed.as_millis(), errors.trim_end());
    let lines = errors.lines().filter(|line| line.starts_with("weir: "));
    let lines: Vec<_> = lines.collect();
    if output.status.code() != Some(3) || lines.len() != 1 {
        return Some(format!("{name}: {}: {errors}", output.status));
    }
    if elapsed > FAILURE_TIME_MAX {
        return Some(format!("{name}: failed only after {elapsed:?}"));
    }
    let is_named = causes.iter().all(|cause| lines[0].contains(cause));
    (!is_named).then(|| format!("{name}: its error does not name the cause: {errors}"))
}

/// Errors that are found without a connection.
fn other_commands_refuse(keytab: &KerberosClient, cache: &KerberosClient, dir: &Path) {
    let missing = KerberosClient {
        name: "missing key tab",
        keytab: Some((CLIENT.to_owned(), dir.join("missing.keytab"))),
        ..keytab.clone()
    };
    let two = ("use different Kerberos tickets", vec![cache]);
    for (client, (cause, others)) in [(&missing, ("missing.keytab", vec![])), (keytab, two)] {
        let output = client.gateway(dir, &["check"], &others).output();
        let output = output.expect("the command starts");
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains(cause), "{printed}");
    }
    // Weir's own client has no Kerberos.
    let config = dir.join("client.properties");
    let properties = format!(
        "bootstrap.servers={}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n\
         sasl.kerberos.service.name=kafka\nsasl.kerberos.use.ticket.cache=true\n",
        cache.servers
    );
    fs::write(&config, properties).expect("a file");
    let words = ["load", "consume", "--topic", TOPIC, "--consumers", "1"];
    let mut consume = weir(&words);
    consume.args(["--duration", "300ms", "--kafka-config"]);
    cache.set_env(&mut consume);
    let output = consume.arg(&config).output().expect("the command starts");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(
        errors.contains("Weir's own connections have no Kerberos"),
        "{errors}"
    );
}

/// A gateway that cannot get a ticket reports it and connects once it can.
fn gateway_recovers_with_its_kdc(realm: &Realm, cache: &KerberosClient, dir: &Path) {
    let client = KerberosClient {
        name: "late ticket",
        keytab: None,
        cache: realm.dir.join("late.tickets"),
        ..cache.clone()
    };
    let mut gateway = client.start(dir);
    let line = gateway.logged("brokers refused the connection");
    assert!(line.contains("No Kerberos credentials available"), "{line}");
    realm.ticket(&client.cache, "1h");
    gateway.listen();
}
