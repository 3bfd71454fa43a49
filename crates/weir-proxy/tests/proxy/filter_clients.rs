//! Filters between real clients: every codec recompressed and read by Java and librdkafka,
//! idempotent and transactional producers, tombstones, and reactions of producers to rejected
//! records.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use weir_lab::{KAFKA_VERSION, KafkaTools};

use super::support::*;

/// Runs a tool with some input. Returns its output from stdout and stderr.
fn tool(class: &str, args: &[&str], input: &str) -> String {
    let tools = KafkaTools::find(KAFKA_VERSION, &mut |_| (), &AtomicBool::new(false));
    let mut command = tools
        .expect("tools")
        .command(&format!("org.apache.kafka.tools.{class}"));
    let piped = command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().expect("runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("reads");
    drop(stdin);
    let output = child.wait_with_output().expect("ends");
    let output_text = [output.stdout, output.stderr].concat();
    let output_text = String::from_utf8_lossy(&output_text).into_owned();
    assert!(output.status.success(), "{class} {args:?}\n{output_text}");
    output_text
}

const EVERY_KIND: &str = "\
[[cluster.filter]]
type = \"lower-case\"
topics = [\"kinds-*\"]
[[cluster.filter]]
type = \"set-header\"
topics = [\"kinds-*\"]
name = \"by\"
value = \"proxy\"
[[cluster.filter]]
type = \"upper-case\"
topics = [\"read-*\"]
on = [\"fetch\"]
[[cluster.filter]]
type = \"mask\"
topics = [\"read-*\"]
on = [\"fetch\"]
members = [\"PIN\"]
";

/// Returns the value and the number of matching headers of the next records.
fn read_whole(bootstrap: &str, topic: &str, count: usize) -> Vec<(Option<String>, usize)> {
    let consumer: BaseConsumer = client_config(bootstrap)
        .set("group.id", unique("whole"))
        .set("auto.offset.reset", "earliest")
        .set("check.crcs", "true")
        .set("isolation.level", "read_committed")
        .create()
        .expect("valid configuration");
    consumer.subscribe(&[topic]).expect("subscribes");
    let mut seen = Vec::new();
    await_that("all records", || {
        if let Some(Ok(message)) = consumer.poll(std::time::Duration::from_millis(50)) {
            let value = message
                .payload()
                .map(|it| String::from_utf8_lossy(it).into_owned());
            let headers = message.headers().map_or(0, |headers| {
                headers
                    .iter()
                    .filter(|it| it.key == "by" && it.value == Some(b"proxy"))
                    .count()
            });
            seen.push((value, headers));
        }
        seen.len() >= count
    });
    seen
}

#[test]
fn rebuilt_batches_are_stored_with_every_codec() {
    let proxy = proxy(EVERY_KIND);
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "kinds", 1, 1);
    let mut expected = Vec::new();
    for (codec, transactional) in [
        ("none", false),
        ("gzip", true),
        ("snappy", false),
        ("lz4", true),
        ("zstd", false),
        ("none", true),
    ] {
        let mut client_config = client_config(&bootstrap);
        client_config
            .set("compression.codec", codec)
            .set("enable.idempotence", "true")
            .set("linger.ms", "50");
        if transactional {
            client_config.set("transactional.id", unique("kinds"));
        }
        let producer: BaseProducer = client_config.create().expect("valid configuration");
        if transactional {
            producer
                .init_transactions(TEST_TIMEOUT)
                .expect("initialised");
            producer.begin_transaction().expect("begins");
        }
        let values = [
            Some(format!("{codec} ÄÖ İ")),
            None,
            Some("X".repeat(3000)),
            Some(String::new()),
        ];
        for value in &values {
            let by = Header {
                key: "by",
                value: Some("client"),
            };
            let mut record: BaseRecord<'_, str, str> = BaseRecord::to(&topic)
                .key("k")
                .headers(OwnedHeaders::new().insert(by));
            if let Some(value) = value {
                record = record.payload(value);
            }
            producer
                .send(record)
                .map_err(|(error, _)| error)
                .expect("queued");
        }
        producer.flush(TEST_TIMEOUT).expect("stored");
        if transactional {
            producer.commit_transaction(TEST_TIMEOUT).expect("commits");
        }
        expected.extend(values.map(|value| (value.map(|it| it.to_lowercase()), 1)));
    }
    assert_eq!(read_whole(&broker(), &topic, expected.len()), expected);
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
}

#[test]
fn java_writes_and_reads_recompressed_batches() {
    let proxy = proxy(EVERY_KIND);
    let bootstrap = proxy.bootstrap();
    let written = topic(&bootstrap, "kinds", 1, 1);
    let read = topic(&bootstrap, "read", 1, 1);
    let long = "Ab".repeat(40_000);
    let lines = ["Grüße", &long, "İ"];
    for codec in ["snappy", "lz4"] {
        let args = [
            "--bootstrap-server",
            &bootstrap,
            "--topic",
            &written,
            "--compression-codec",
            codec,
        ];
        tool("ConsoleProducer", &args, &(lines.join("\n") + "\n"));
    }
    let lower = lines.map(str::to_lowercase);
    let expected: Vec<_> = lower
        .iter()
        .chain(&lower)
        .map(|it| (Some(it.clone()), 1))
        .collect();
    assert_eq!(read_whole(&broker(), &written, 6), expected);

    let mut expected = Vec::new();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let mut client_config = client_config(&broker());
        client_config
            .set("compression.codec", codec)
            .set("linger.ms", "50");
        let values = [
            format!("{{\"pin\": \"{codec}\", \"of\": \"ä\"}}"),
            long.clone(),
        ];
        produce(&client_config, &read, &values);
        expected.push("{\"PIN\": \"***\", \"OF\": \"Ä\"}".to_owned());
        // A value that is not JSON is masked as a whole.
        expected.push("\"***\"".to_owned());
    }
    let args = [
        "--bootstrap-server",
        &bootstrap,
        "--topic",
        &read,
        "--from-beginning",
        "--max-messages",
        "10",
        "--timeout-ms",
        "60000",
    ];
    let output_text = tool("consumer.ConsoleConsumer", &args, "");
    let lines: Vec<_> = output_text
        .lines()
        .filter(|line| line.contains("***"))
        .collect();
    assert_eq!(lines, expected, "{output_text}");
}

#[test]
fn java_continues_after_rejected_record() {
    let proxy = proxy("[[cluster.filter]]\ntype = \"require\"\njson = true\n");
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "strict", 1, 1);
    let args = [
        "--bootstrap-server",
        &bootstrap,
        "--topic",
        &topic,
        "--command-property",
        "enable.idempotence=true",
        "--command-property",
        "batch.size=0",
        "--command-property",
        "linger.ms=0",
        // Records after a rejected one have a sequence gap, and are sent again with new sequence
        // numbers. The tool's few default retries are not enough for many of them.
        "--command-property",
        "retries=1000",
        "--command-property",
        "request.timeout.ms=30000",
        "--command-property",
        "delivery.timeout.ms=80000",
    ];
    let lines: Vec<String> = (0..40)
        .map(|number| match number % 4 {
            3 => format!("broken {number}"),
            _ => format!("{{\"n\":{number}}}"),
        })
        // Small records share a batch in spite of batch.size=0, and a rejected record rejects its
        // batch.
        .map(|line| format!("{line:<500}"))
        .collect();
    tool("ConsoleProducer", &args, &(lines.join("\n") + "\n"));
    let mut good: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with('{'))
        .cloned()
        .collect();
    good.sort_unstable();
    assert_eq!(consume(&bootstrap, &topic, good.len()), good);
    assert_eq!(
        proxy.metric("weir_proxy_filter_rejected_partitions_total"),
        10
    );
}

#[test]
fn transaction_with_rejected_record_aborts_and_next_commits() {
    let proxy = proxy("[[cluster.filter]]\ntype = \"require\"\nvalue_bytes_max = 3\n");
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "strict", 1, 1);
    let producer: BaseProducer = client_config(&bootstrap)
        .set("transactional.id", unique("strict"))
        .create()
        .expect("valid configuration");
    producer
        .init_transactions(TEST_TIMEOUT)
        .expect("initialised");
    producer.begin_transaction().expect("begins");
    send_all(
        &producer,
        &topic,
        &["ok1".to_owned(), "too long".to_owned()],
    );
    let _ = producer.flush(TEST_TIMEOUT);
    producer
        .commit_transaction(TEST_TIMEOUT)
        .expect_err("one record is missing");
    // librdkafka may detect the sequence gap only later, and then needs another abort.
    await_that("a transaction without the rejected record", || {
        producer.abort_transaction(TEST_TIMEOUT).expect("aborts");
        producer.begin_transaction().expect("begins again");
        send_all(&producer, &topic, &["ok2".to_owned()]);
        producer.commit_transaction(TEST_TIMEOUT).is_ok()
    });
    assert_eq!(
        read_whole(&bootstrap, &topic, 1),
        [(Some("ok2".to_owned()), 0)]
    );
}
