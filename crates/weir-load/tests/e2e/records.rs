//! Values with a schema: produced without headers, consumed and timed; schemas registered with a
//! real registry.

use std::sync::atomic::AtomicBool;

use weir_kafka::registry::{RegistryClient, RegistryId, RegistryLogin, RegistrySettings};
use weir_lab::{Registry, RegistryOptions};
use weir_load::consumer::{LatencySource, ValueArgs};
use weir_load::producer::RecordArgs;
use weir_load::value_schema::SchemaArgs;

use super::*;

/// Writes records without headers and reads them with a consumer of `source`. All records must be
/// timed and, if the field is a stamp, checked.
fn check(kind: PayloadKind, record: RecordArgs, (source, values): (&str, ValueArgs)) {
    let topic = topic(3);
    check_in(&topic, kind, record, (source, values));
}

fn check_in(
    topic: &str,
    kind: PayloadKind,
    record: RecordArgs,
    (source, values): (&str, ValueArgs),
) {
    let source: LatencySource = source.parse().expect("a source");
    let consumer_options = ConsumerOptions {
        latency_from: source.clone(),
        values,
        ..ConsumerOptions::new(&cluster(), topic, 2)
    };
    let consumers = TestWorker::start(move |link| consumer::run(&consumer_options, link));
    assert_eq!(consumers.ready(), (2, None));
    // Times in records may be whole milliseconds, so the window begins at one.
    let mut window = immediate_schedule();
    window.start_unix_ns -= window.start_unix_ns % MS;
    window.measure_from_unix_ns = window.start_unix_ns;
    consumers.command(WorkerCommand::Start(window));
    let options = ProducerOptions {
        kind,
        record,
        no_stamp: true,
        size: None,
        count: Some(300),
        ..options(topic, 3_000.0)
    };
    let (_, produced) = produce(options, immediate_schedule());
    assert_eq!(produced.acked, 300);
    let is_stamp = !source.to_string().ends_with("timestamp");
    if is_stamp {
        // The consumers end on their own when all records of the ledger have arrived.
        let entries = produced.ledger;
        consumers.command(WorkerCommand::Ledger { entries });
    } else {
        while consumers.updates() < 600 {}
        consumers.command(WorkerCommand::Stop);
    }
    let (events, summary) = consumers.finish();
    let summary = summary.expect("summary");
    assert!(
        summary.errors.is_empty(),
        "{kind} {source}: {:?}",
        summary.errors
    );
    let counts = &summary.counts;
    assert_eq!(
        (counts.lost, counts.duplicated, counts.reordered),
        (0, 0, 0)
    );
    let (unchecked, resolution_ns) = if is_stamp { (0, 1) } else { (600, 1_000_000) };
    assert_eq!(
        (counts.unchecked, summary.latency_resolution_ns),
        (unchecked, resolution_ns),
        "{kind} {source}"
    );
    match is_stamp {
        true => assert_eq!(interval_count(&events, LatencyTag::Response), 600),
        // `updates` has consumed the interval events.
        false => assert_eq!(summary.client_p99_us.clients(), 2),
    }
}

fn framed() -> ValueArgs {
    ValueArgs {
        framed: true,
        ..ValueArgs::default()
    }
}

#[test]
fn values_with_schema_are_timed_without_headers() {
    let with_id = || RecordArgs {
        schema_id: Some(70_000),
        ..RecordArgs::default()
    };
    for (kind, source) in [
        (PayloadKind::Avro, "avro:weir"),
        (PayloadKind::Protobuf, "protobuf:weir"),
        (PayloadKind::Json2, "json:weir"),
    ] {
        check(kind, RecordArgs::default(), (source, ValueArgs::default()));
        check(kind, with_id(), (source, framed()));
    }
    let source = ("protobuf:timestamp", ValueArgs::default());
    check(PayloadKind::Protobuf, RecordArgs::default(), source);
}

#[test]
fn own_schema_with_nullable_fields_is_timed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("order.avsc");
    let text = r#"{"type": "record", "name": "Order", "fields": [
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "legs", "type": {"type": "array", "items": "double"}},
        {"name": "note", "type": ["null", "string"]}]}"#;
    std::fs::write(&path, text).expect("a written file");
    let schema = SchemaArgs {
        schema: Some(path),
        message: None,
    };
    let record = RecordArgs {
        schema: schema.clone(),
        time_field: Some("at".to_owned()),
        stamp_field: Some("note".to_owned()),
        ..RecordArgs::default()
    };
    let values = ValueArgs {
        schema,
        framed: false,
    };
    check(PayloadKind::Avro, record, ("avro:note", values));
}

#[test]
fn schemas_are_registered_at_a_registry() {
    let (options, stop) = (RegistryOptions::default(), AtomicBool::new(false));
    let registry = Registry::start(&options, &mut |_| (), &stop).expect("a registry");
    let record = || {
        let mut record = RecordArgs::default();
        record.registry.registry = Some(registry.url());
        record
    };
    for (kind, source, name) in [
        (PayloadKind::Avro, "avro:weir", "AVRO"),
        (PayloadKind::Protobuf, "protobuf:weir", "PROTOBUF"),
        (PayloadKind::Json2, "json:weir", "JSON"),
    ] {
        let topic = topic(3);
        // The second producer finds the schema of the first.
        for _ in 0..2 {
            check_in(&topic, kind, record(), (source, framed()));
        }
        let client = registry_client(&registry.url());
        let version = client
            .newest_version(&format!("{topic}-value"))
            .expect("a subject");
        assert_eq!((version.version, version.kind.as_str()), (1, name));
        let schema = client
            .schema(&RegistryId::Number(version.id))
            .expect("a schema");
        assert!(schema.text.contains("fstValue"), "{}", schema.text);
    }
    let topic = topic(1);
    let mut wrong = record();
    wrong.registry.registry = Some(format!("{}/wrong", registry.url()));
    let options = ProducerOptions {
        kind: PayloadKind::Avro,
        record: wrong,
        ..super::options(&topic, 1.0)
    };
    let worker = TestWorker::start(move |link| producer::run(&options, link));
    let (_, result) = worker.finish();
    let error = result.expect_err("no registry there");
    assert_eq!(error.class(), ErrorClass::Target);
    assert!(
        error.to_string().starts_with("schema registry: http://"),
        "{error}"
    );
}

fn registry_client(url: &str) -> RegistryClient {
    let settings = RegistrySettings {
        url: url.to_owned(),
        login: RegistryLogin::None,
        tls: None,
        request_timeout: TEST_TIMEOUT,
    };
    RegistryClient::new(&settings).expect("a client")
}
