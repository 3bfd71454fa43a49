//! End-to-end tests of `weir gateway run --topic`, `init` and `tail`.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_kafka::{Admin, KafkaSettings, Producer, ProducerConfig};

use super::broker;
use super::support::{Process, text, weir};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which a condition is polled.
const LOOK: Duration = Duration::from_millis(20);

/// Creates a topic with records of key and value.
fn topic(name: &str, records: &[(&str, &str)]) {
    let kafka = KafkaSettings::plaintext(&broker());
    let admin = Admin::connect(&kafka, TEST_TIMEOUT).unwrap();
    admin.create_topic(name, 2, 1, &[]).unwrap();
    write(name, records);
}

fn write(name: &str, records: &[(&str, &str)]) {
    let config = ProducerConfig {
        kafka: KafkaSettings::plaintext(&broker()),
        ..ProducerConfig::default()
    };
    let producer = Producer::start(&config, Box::new(|_| {})).unwrap();
    for (key, value) in records {
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        producer.send(name, None, key, value, &[], None, 0).unwrap();
    }
    assert_eq!(producer.flush(TEST_TIMEOUT), 0);
}

/// Starts `weir gateway run` and returns its client URL when it is ready.
fn gateway(dir: &Path, options: &[&str]) -> (Process, String) {
    let (process, url, _) = gateway_and_admin(dir, options);
    (process, url)
}

/// Starts `weir gateway run` and returns its client URL and its admin port when it is ready.
fn gateway_and_admin(dir: &Path, options: &[&str]) -> (Process, String, String) {
    let ready = dir.join("ready.json");
    let mut command = weir(&["gateway", "run", "--listen", "127.0.0.1:0"]);
    command
        .args(["--admin", "127.0.0.1:0", "--ready-file"])
        .arg(&ready);
    command
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut process = Process::spawn(&mut command);
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let content = fs::read(&ready).unwrap_or_default();
        if let Ok(content) = serde_json::from_slice::<Value>(&content) {
            let listen = content["listen"].as_str().unwrap();
            let admin = content["admin"].as_str().unwrap();
            return (process, format!("ws://{listen}"), admin.to_owned());
        }
        assert_eq!(process.try_wait().unwrap(), None, "the gateway ended");
        assert!(Instant::now() < deadline, "the gateway is not ready");
        std::thread::sleep(LOOK);
    }
}

fn tail(url: &str, arguments: &[&str]) -> Output {
    let mut command = weir(&["gateway", "tail", "--url", url, "--timeout", "30s"]);
    command.args(arguments).output().unwrap()
}

/// Returns the first server-sent event of an item, all fields of which are wanted.
fn server_sent_event(url: &str, item: &str) -> String {
    let address = url.strip_prefix("ws://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    write!(
        stream,
        "GET /sse?item={item} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let event = lines.find(|line| line.starts_with("data: ") || line.contains("HTTP/1.1 4"));
    event.unwrap()
}

/// Returns the updates of `tail --json`.
fn updates(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[test]
fn topic_without_a_file_is_delivered_with_its_last_records() {
    let records = [
        ("a", r#"{"n": 1}"#),
        ("b", r#"{"n": 2, "more": [1]}"#),
        ("a", r#"{"n": 3}"#),
    ];
    topic("quick.json", &records);
    let dir = tempfile::tempdir().unwrap();
    let options = ["--bootstrap", &broker(), "--topic", "quick.json"];
    let (_gateway, url, admin) = gateway_and_admin(dir.path(), &options);
    // Without names, all fields of the sample are shown.
    let of_a = ["quick_json-[key=a]", "--count", "1", "--json"];
    let found = updates(&tail(&url, &[&of_a[..], &["--admin", &admin]].concat()));
    assert_eq!(found[0]["values"].to_string(), r#"{"more":null,"n":"3"}"#);
    let event = server_sent_event(&url, "quick_json-%5Bkey=a%5D");
    assert!(
        event.contains(r#""values":{"#) && event.contains(r#""n":"3""#),
        "{event}"
    );
    let unnamed = [&of_a[..], &["--admin", "127.0.0.1:1"]].concat();
    let refused = tail(&url, &unnamed);
    let error = text(&refused.stderr);
    assert!(error.contains("name the fields with --fields"), "{error}");

    let items = [
        "quick_json-[key=a]",
        "quick_json-[key=b]",
        "--fields",
        "n more",
    ];
    let output = tail(&url, &[&items[..], &["--count", "2", "--json"]].concat());
    let mut found = updates(&output);
    found.sort_by_key(|update| update["item"].to_string());
    let values: Vec<_> = found
        .iter()
        .map(|update| update["values"].to_string())
        .collect();
    assert_eq!(
        values,
        [r#"{"more":null,"n":"3"}"#, r#"{"more":"[1]","n":"2"}"#]
    );
    assert!(
        found.iter().all(|update| update["snapshot"] == true),
        "{found:?}"
    );

    // Later records are updates, also of the item with all records.
    let mut all = weir(&[
        "gateway",
        "tail",
        "--url",
        &url,
        "quick_json",
        "--fields",
        "n",
    ]);
    all.args(["--no-snapshot", "--mode", "distinct", "--count", "1"]);
    let mut all = Process::spawn(all.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let deadline = Instant::now() + TEST_TIMEOUT;
    while all.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "no update");
        write("quick.json", &[("c", r#"{"n": "late\n"}"#)]);
        std::thread::sleep(LOOK);
    }
    let output = all.output();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let line = text(&output.stdout);
    assert!(line.ends_with("  quick_json  n=late\\n\n"), "{line:?}");
}

#[test]
fn init_writes_valid_configuration() {
    topic(
        "init-text",
        &[("k 1", "plain"), ("k2", "gr\u{fc}n"), ("k3", "{}x")],
    );
    let dir = tempfile::tempdir().unwrap();
    let init = |more: &[&str]| {
        let mut command = weir(&["gateway", "init", "--bootstrap", &broker()]);
        command.args(["--topic", "init-text"]).args(more);
        command.current_dir(&dir).output().unwrap()
    };
    let output = init(&[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let sentence = "topic init-text: text keys, values delivered as text (3 records read); \
                    1 keys have a comma or blank and reach only item init-text\n";
    assert!(printed.starts_with(sentence), "{printed}");
    assert!(printed.contains("  weir gateway tail "), "{printed}");
    let again = init(&[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("exists; pass --force to replace it"));
    assert!(init(&["--force"]).status.success());

    let config = dir.path().join("gateway.toml");
    let written = fs::read_to_string(&config).unwrap();
    assert!(
        written.starts_with("#:schema gateway.schema.json\n"),
        "{written}"
    );
    let schema = fs::read_to_string(dir.path().join("gateway.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let values: toml::Value = toml::from_str(&written).unwrap();
    let values = serde_json::to_value(values).unwrap();
    assert!(
        validator.is_valid(&values),
        "{:?}",
        validator.validate(&values)
    );
    let config = config.to_str().unwrap();
    let check = weir(&["gateway", "check", "--config", config])
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", text(&check.stdout));
    let (_gateway, url) = gateway(dir.path(), &["--config", config]);
    let key = [
        "init-text-[key=k2]",
        "--fields",
        "key value",
        "--count",
        "1",
        "--json",
    ];
    let found = updates(&tail(&url, &key));
    assert_eq!(
        found[0]["values"].to_string(),
        "{\"key\":\"k2\",\"value\":\"gr\u{fc}n\"}"
    );
}

#[test]
fn errors_name_failed_step() {
    let run = |arguments: &[&str]| -> (i32, String) {
        let output: Output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("gateway")
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code().unwrap(), text(&output.stderr))
    };
    let (code, error) = run(&["run"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("pass --adapters FILE or --config FILE"),
        "{error}"
    );
    let (code, error) = run(&["run", "--bootstrap", &broker(), "--topic", "missing"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("topic \"missing\" does not exist"),
        "{error}"
    );
    topic("framed", &[("k", "\0\0\0\0\u{7}\u{7f}x")]);
    let (code, error) = run(&["init", "--bootstrap", &broker(), "--topic", "framed"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("the records need schema 7 of a schema registry"),
        "{error}"
    );

    let (code, error) = run(&["tail", "a b", "--fields", "v"]);
    assert_eq!(code, 2);
    assert!(error.contains("names contain no blanks"), "{error}");
    // A server that sends nothing, then no server.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("ws://127.0.0.1:{port}");
    let (code, error) = run(&[
        "tail",
        "a",
        "--fields",
        "v",
        "--url",
        &url,
        "--timeout",
        "1s",
    ]);
    assert_eq!(code, 3);
    assert!(error.contains("no response in time"), "{error}");
    drop(listener);
    let (code, error) = run(&[
        "tail",
        "a",
        "--fields",
        "v",
        "--url",
        &url,
        "--timeout",
        "3s",
    ]);
    assert_eq!(code, 3);
    assert!(error.contains("connection refused"), "{error}");
    assert!(error.contains("cannot connect, trying again"), "{error}");
    topic("refusing", &[("k", "v")]);
    let dir = tempfile::tempdir().unwrap();
    let (_gateway, url) = gateway(
        dir.path(),
        &["--bootstrap", &broker(), "--topic", "refusing"],
    );
    let refused = tail(&url, &["nosuch", "--fields", "key"]);
    assert_eq!(refused.status.code(), Some(3));
    let error = text(&refused.stderr);
    assert!(
        error.contains("the subscription was refused with code 21"),
        "{error}"
    );
}
