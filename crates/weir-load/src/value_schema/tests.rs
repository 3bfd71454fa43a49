use std::fs;

use proptest::prelude::*;

use super::*;

fn load(
    format: RecordFormat,
    path: &std::path::Path,
    message: Option<&str>,
) -> Result<ValueSchema> {
    let args = SchemaArgs {
        schema: Some(path.to_owned()),
        message: message.map(str::to_owned),
    };
    ValueSchema::new(&args, format)
}

#[test]
fn built_in_schemas_are_valid() {
    for format in [
        RecordFormat::Avro,
        RecordFormat::Protobuf,
        RecordFormat::Json,
    ] {
        let schema = ValueSchema::built_in(format);
        assert_eq!(schema.format(), format);
        assert!(schema.text.is_ok_and(|text| text.contains("fstValue")));
    }
    let json = ValueSchema::built_in(RecordFormat::Json);
    let text = json.text.expect("a text");
    let object: serde_json::Value = serde_json::from_str(&text).expect("a JSON schema");
    assert_eq!(object["properties"]["weir"]["type"], "string");
}

#[test]
fn imports_are_read_from_the_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, text).expect("a written file");
        path
    };
    write(
        "sub/b.proto",
        "syntax = \"proto3\"; import \"c.proto\"; message B { C c = 1; }",
    );
    write(
        "c.proto",
        "syntax = \"proto3\"; message C { string s = 1; }",
    );
    let main =
        "syntax = \"proto3\"; import \"sub/b.proto\"; message First { B b = 1; } message Second {}";
    let main = write("a.proto", main);
    let schema = load(RecordFormat::Protobuf, &main, None).expect("a schema");
    assert!(
        schema
            .text
            .as_ref()
            .is_err_and(|reason| reason.contains("--schema-id"))
    );
    let framed = frame(&schema, 258).expect("a frame");
    assert_eq!(framed, [0, 0, 0, 1, 2, 0]);
    let second = load(RecordFormat::Protobuf, &main, Some("Second")).expect("a schema");
    let framed = frame(&second, 258).expect("a frame");
    assert_eq!(framed, [0, 0, 0, 1, 2, 2, 2]);
    let value = [framed.as_slice(), b"rest"].concat();
    assert_eq!(unframed(&value, RecordFormat::Protobuf), Some(&b"rest"[..]));
    let imported = load(RecordFormat::Protobuf, &main, Some("C")).expect("a schema");
    let error = frame(&imported, 1).expect_err("no position").to_string();
    assert!(
        error.starts_with("--message C: a type of an imported file"),
        "{error}"
    );
    for (text, reason) in [
        (
            "import \"d.proto\";",
            "import \"d.proto\" in schema: cannot read the file",
        ),
        ("import \"/etc/passwd\";", "not a path below the directory"),
        ("import \"../x.proto\";", "not a path below the directory"),
        ("message {", "schema"),
        ("", "it defines no message type"),
    ] {
        let path = write("bad.proto", &format!("syntax = \"proto3\"; {text}"));
        let error = load(RecordFormat::Protobuf, &path, None)
            .expect_err("invalid")
            .to_string();
        assert!(
            error.starts_with("--schema /") && error.contains(reason),
            "{error}"
        );
    }
}

#[test]
fn unusable_schemas_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.avsc");
    for (text, reason) in [
        (&b"{"[..], "not JSON"),
        (b"\xff", "not UTF-8"),
        (
            br#"{"type": "recor", "name": "A"}"#,
            "unknown type \"recor\"",
        ),
    ] {
        fs::write(&path, text).expect("a written file");
        let error = load(RecordFormat::Avro, &path, None)
            .expect_err("invalid")
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    let error = load(RecordFormat::Protobuf, &path, None)
        .expect_err("invalid")
        .to_string();
    assert!(error.contains("not a Protobuf descriptor set"), "{error}");
    fs::write(&path, vec![b' '; (4 << 20) + 1]).expect("a written file");
    let error = load(RecordFormat::Avro, &path, None)
        .expect_err("long")
        .to_string();
    assert!(error.contains("more than 4194304 bytes"), "{error}");
    let error = load(RecordFormat::Avro, &path, Some("A"))
        .expect_err("no messages")
        .to_string();
    assert!(
        error.starts_with("--message A: avro has no message types"),
        "{error}"
    );
    let path = directory.path().join("a.proto");
    fs::write(&path, "syntax = \"proto3\"; message A {}").expect("a written file");
    let error = load(RecordFormat::Protobuf, &path, Some("B"))
        .expect_err("unknown")
        .to_string();
    assert!(
        error.ends_with("no such message type; some of its own: A"),
        "{error}"
    );
}

#[test]
fn frames_are_removed() {
    let avro = |bytes: &'static [u8]| unframed(bytes, RecordFormat::Avro);
    assert_eq!(avro(b"\0\0\0\0\x07rest"), Some(&b"rest"[..]));
    assert_eq!(avro(b"\x01GUIDGUIDGUIDGUIDrest"), Some(&b"rest"[..]));
    for invalid in [
        &b""[..],
        b"\0\0\0\0",
        b"\x01GUIDGUIDGUIDGUI",
        b"{}",
        b"\x02\0\0\0\0",
    ] {
        assert_eq!(avro(invalid), None, "{invalid:?}");
    }
    let protobuf = |bytes: &'static [u8]| unframed(bytes, RecordFormat::Protobuf);
    assert_eq!(protobuf(b"\0\0\0\0\x07\0rest"), Some(&b"rest"[..]));
    assert_eq!(protobuf(b"\0\0\0\0\x07\x04\x02\0rest"), Some(&b"rest"[..]));
    for invalid in [
        &b"\0\0\0\0\x07"[..],
        b"\0\0\0\0\x07\x04\0",
        b"\0\0\0\0\x07\xff\xff\xff\xff\xff",
    ] {
        assert_eq!(protobuf(invalid), None, "{invalid:?}");
    }
}

#[test]
fn fields_of_framed_values_are_found() {
    let schema = ValueSchema::built_in(RecordFormat::Protobuf);
    let mut reader = DocumentReader::new(&schema, "weir", true).expect("a path");
    let value = [
        &frame(&schema, 5).expect("a frame"),
        &b"\x2a\x021.\x1a\x01k"[..],
    ]
    .concat();
    assert_eq!(reader.read(&value), Ok("1."));
    assert_eq!(reader.read(b"\x2a\x021."), Err(DocumentFault::Unframed));
    assert_eq!(
        reader.read(b"\0\0\0\0\x05\0\x2a\x09"),
        Err(DocumentFault::Undecodable)
    );
    let schema = ValueSchema::built_in(RecordFormat::Avro);
    let mut reader = DocumentReader::new(&schema, "other", false).expect("a path");
    assert_eq!(reader.read(b"\0\0\0\0\0"), Err(DocumentFault::Missing));
}

proptest! {
    #[test]
    fn arbitrary_values_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        for format in [RecordFormat::Avro, RecordFormat::Protobuf, RecordFormat::Json] {
            let _ = unframed(&bytes, format);
        }
        for format in [RecordFormat::Avro, RecordFormat::Protobuf] {
            for is_framed in [false, true] {
                let schema = ValueSchema::built_in(format);
                let reader = DocumentReader::new(&schema, "weir", is_framed);
                let _ = reader.expect("a path").read(&bytes);
            }
        }
    }
}
