use super::*;

fn args() -> RecordArgs {
    RecordArgs::default()
}

fn own(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn options_of_other_kinds_are_rejected() {
    let with_schema = RecordArgs {
        schema: SchemaArgs {
            schema: Some("a.avsc".into()),
            message: None,
        },
        ..args()
    };
    let with_id = RecordArgs {
        schema_id: Some(5),
        ..args()
    };
    let with_stamp = RecordArgs {
        stamp_field: own("s"),
        ..args()
    };
    for (args, kind, expected) in [
        (
            &with_schema,
            PayloadKind::Json,
            "--kind json: --schema needs values with a schema",
        ),
        (
            &with_id,
            PayloadKind::Replay,
            "--kind replay: --schema-id needs values",
        ),
        (
            &with_stamp,
            PayloadKind::Keyed,
            "--kind keyed: --stamp-field needs values",
        ),
        (
            &with_stamp,
            PayloadKind::Json2,
            "--stamp-field s: objects of kind json2 have fixed",
        ),
        (
            &with_schema,
            PayloadKind::Json2,
            "--schema a.avsc: JSON values have a fixed form",
        ),
        (
            &with_schema,
            PayloadKind::Avro,
            "--schema a.avsc: cannot read the file",
        ),
        (
            &with_stamp,
            PayloadKind::Avro,
            "--stamp-field s: values have no such field",
        ),
    ] {
        let error = args
            .spec((kind, false), None)
            .expect_err("unfit")
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(
        args()
            .spec((PayloadKind::Json, false), None)
            .is_ok_and(|spec| spec.is_none())
    );
    for kind in [PayloadKind::Avro, PayloadKind::Protobuf, PayloadKind::Json2] {
        assert!(
            with_id
                .spec((kind, true), None)
                .is_ok_and(|spec| spec.is_some())
        );
    }
}

#[test]
fn marks_and_registration_need_texts() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a written file");
        path
    };
    write("b.proto", "syntax = \"proto3\"; message B {}");
    let importing = "syntax = \"proto3\"; import \"b.proto\"; message A { int64 timestamp = 1; }";
    let mut args = RecordArgs {
        schema: SchemaArgs {
            schema: Some(write("a.proto", importing)),
            message: None,
        },
        ..args()
    };
    let error = args
        .spec((PayloadKind::Protobuf, true), None)
        .expect_err("no text")
        .to_string();
    assert!(
        error.starts_with("--mark with --kind protobuf: values have no timestamp"),
        "{error}"
    );
    args.registry.registry = own("http://a:1");
    let error = args
        .spec((PayloadKind::Protobuf, false), None)
        .expect_err("imports")
        .to_string();
    let expected = "--registry http://a:1: the schema cannot be registered: it imports files";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn schema_id_frames_values_without_a_registry() {
    let args = RecordArgs {
        schema_id: Some(258),
        ..args()
    };
    let spec = args
        .spec((PayloadKind::Protobuf, false), Some(300))
        .expect("values");
    let spec = args
        .framed(spec.expect("values"), "LTest")
        .expect("a frame");
    let values = crate::payload::PayloadSpec {
        kind: PayloadKind::Protobuf,
        size: 1,
        keys: 1,
        key: None,
        entropy: 1.0,
        members: crate::payload::MembersSpec::default(),
        replay: Default::default(),
        record: Some(spec),
        extended: false,
        seed: 1,
        marked: false,
    };
    let local = crate::local_time::LocalTime::utc();
    let mut payloads = crate::payload::PayloadGenerator::new(&values, local).expect("payloads");
    let stamp = crate::stamp::Stamp {
        due_unix_ns: 1_700_000_000_000_000_000,
        producer: 0,
        seq: 0,
        sent_unix_ns: None,
    };
    payloads.make(0, &stamp);
    assert_eq!(payloads.value()[..6], [0, 0, 0, 1, 2, 0]);
    assert_eq!(payloads.value().len(), 306);
}
