//! `docs/gateway.schema.json` against the types of `gateway.toml` and the examples of this
//! repository.
//!
//! The schema is derived from the types. After a change:
//! `WEIR_UPDATE_FILES=1 cargo test -p weir-gateway --lib schema`.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use weir_lab::derived_file::assert_derived;

use super::RawFile;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Tables whose numbers have bounds, each as a file with its required keys.
const BOUNDED: [(&str, &str); 4] = [
    ("GatewayLimits", "[limits]"),
    ("PerAddress", "[limits.per_address]"),
    ("CompressionConfig", "[compression]"),
    ("TlsConfig", "[tls]\ncertificate = \"c\"\nkey = \"k\""),
];

/// Returns the schema of `[connection]`. The rules of its parameters are those of the connector,
/// which warns about unknown names.
pub(super) fn connections(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "additionalProperties": {"$ref": "#/$defs/Parameter"},
        },
    })
}

fn schema() -> Value {
    let mut schema: Value = schemars::schema_for!(RawFile).into();
    schema["$id"] = "weir-gateway-1".into();
    schema["title"] = "gateway.toml of Weir".into();
    schema["$defs"]["Parameter"] = json!({
        "description": "A parameter, or a table of parameters whose names begin with its name.",
        "type": ["string", "number", "boolean", "object"],
        "additionalProperties": {"$ref": "#/$defs/Parameter"},
    });
    // Each format has a second name, that of lightstreamer_conf.xml.
    let formats = json!(["json_patch", "jsonpatch", "tlcp_diff", "diff_match_patch"]);
    schema["$defs"]["RawDiffFormat"] = json!({"enum": formats, "type": "string"});
    for (definition, table) in BOUNDED {
        let keys = schema["$defs"][definition]["properties"].as_object_mut();
        for (key, number) in keys.expect(definition) {
            let bounds = is_number(number).then(|| bounds(table, key)).flatten();
            if let Some((min, max)) = bounds {
                number["minimum"] = min.into();
                max.is_some().then(|| number["maximum"] = max.into());
            }
        }
    }
    schema
}

fn is_number(schema: &Value) -> bool {
    ["integer", "number"].contains(&schema["type"].as_str().unwrap_or_default())
}

/// Returns the bounds of a number as the error for a value outside of them names them.
fn bounds(table: &str, key: &str) -> Option<(u64, Option<u64>)> {
    let errors = ["0", "9000000000000000000"].map(|value| {
        let text = format!("{table}\n{key} = {value}");
        toml::from_str::<RawFile>(&text).err()
    });
    let mut errors = errors.iter().flatten().map(toml::de::Error::message);
    errors.find_map(|message| match message.strip_prefix("use at least ") {
        Some(min) => Some((min.parse().ok()?, None)),
        None => {
            let (min, max) = message.strip_prefix("use ")?.split_once(" to ")?;
            Some((min.parse().ok()?, Some(max.parse().ok()?)))
        }
    })
}

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/{path}")).expect(path)
}

/// Returns the errors of a file.
fn errors(text: &str) -> Vec<String> {
    let file: toml::Value = toml::from_str(text).expect(text);
    let file = serde_json::to_value(file).expect("JSON");
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let errors = validator.iter_errors(&file);
    errors.map(|error| error.to_string()).collect()
}

#[test]
fn published_schema_matches_the_types() {
    assert_derived("docs/gateway.schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn example_files_match_the_schema() {
    assert_eq!(errors(&read("packaging/config/gateway.toml")), [""; 0]);
    for page in [
        "client-messages",
        "configuration",
        "identity",
        "remote-adapters",
        "session-administration",
    ] {
        let text = read(&format!("docs/{page}.md"));
        let blocks: Vec<_> = text.split("```toml\n").skip(1).collect();
        assert!(!blocks.is_empty(), "{page} has an example");
        for block in blocks {
            let block = block.split("```").next().unwrap_or_default();
            assert_eq!(errors(block), [""; 0], "{page}: {block}");
        }
    }
}

#[test]
fn wrong_keys_and_values_do_not_match_the_schema() {
    let all = schema();
    let definitions = all["$defs"].as_object().expect("definitions");
    for (name, table) in definitions
        .iter()
        .filter(|it| it.1["properties"].is_object())
    {
        assert_eq!(table["additionalProperties"], false, "{name}");
    }
    for wrong in [
        "listens = \"0.0.0.0:8080\"",
        "event_loops = \"2\"",
        "allowed_origins = \"*\"",
        "unknown_names = \"ignore\"",
        "connection = \"a\"",
        "connection.a = 1",
        "[connection.a]\nenable = [1]",
        "[limits]\nsession = 1",
        "[limits]\nsessions = 0",
        "[limits]\nrecovery_ms = 600001",
        "[limits.per_address]\nsession = 1",
        "[last_values]\nbytes = 1",
        "[admin]\nport = 1",
        "[admin.sessions]\nkey = \"a\"",
        "[admin.tls]\ncertificate = \"a.pem\"",
        "[audit]\nqueue = 1",
        "[watchdog]\nstall = 1",
        "[tls]\ncertificate = \"a\"",
        "[tls]\ncertificate = \"a\"\nkey = \"b\"\nclient_auth = \"maybe\"",
        "[diffs]\norder = [\"patch\"]",
        "[diffs.connection.a]\nbudget_bytes_per_second = 1",
        "[compression]\nlevel = 10",
        "[simulator]\nitems = 1",
        "[adapter]\nunavailable = \"accept\"",
        "[[adapter.users]]\nname = \"a\"",
        "[[message]]\ndestination = \"file\"",
        "[[message]]\ntopics = \"a\"",
        "[messages]\npending = 1",
        "[kafka]\nreader = \"java\"",
        "[kafka.connection.a]\nproperty = {}",
        "[schema_registry]\nwait = 1",
        "[auth]\nsource = [\"password\"]",
        "[[auth.issuer]]\nissuers = \"a\"",
        "[auth.revocations]\ntopic = \"a\"",
        "[[authorize]]\nitem = \"a\"",
        "[[authorize]]\nsnapshot = \"no\"",
        "[[session_rule]]\nper_user = { session = 1 }",
    ] {
        assert_ne!(errors(wrong), [""; 0], "{wrong}");
    }
}

#[test]
fn each_diff_format_of_the_schema_is_read() {
    let schema = schema();
    let formats = schema["$defs"]["RawDiffFormat"]["enum"].as_array();
    for format in formats.expect("a list") {
        let text = format!("[diffs]\norder = [{format}]");
        toml::from_str::<RawFile>(&text).expect(&text);
    }
}
