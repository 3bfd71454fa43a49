//! `docs/proxy.schema.json` against the types of `proxy.toml` and the examples of this repository.
//!
//! The schema is derived from the types. After a change:
//! `WEIR_UPDATE_FILES=1 cargo test -p weir-proxy --lib schema`.

use serde_json::{Value, json};
use weir_lab::derived_file::assert_derived;

use super::raw::{LIMIT_RANGES, RawFile};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn schema() -> Value {
    let mut schema: Value = schemars::schema_for!(RawFile).into();
    schema["$id"] = "weir-proxy-1".into();
    schema["title"] = "proxy.toml of Weir".into();
    // The default depends on the machine.
    let event_loops = schema["properties"]["event_loops"].as_object_mut();
    event_loops.expect("a key").remove("default");
    // A proxy has no sessions and refuses the table.
    let definitions = schema["$defs"].as_object_mut().expect("definitions");
    definitions.remove("SessionsTable").expect("a table");
    definitions.remove("SessionsToken").expect("a token");
    let admin = definitions["AdminTable"]["properties"].as_object_mut();
    admin.expect("keys").remove("sessions").expect("a key");
    for (key, min, max) in LIMIT_RANGES {
        let limit = &mut schema["$defs"]["ProxyLimits"]["properties"][key];
        assert!(limit.is_object(), "{key}");
        limit["minimum"] = min.into();
        limit["maximum"] = max.into();
    }
    schema
}

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/{path}")).expect(path)
}

/// Returns the errors of a file.
fn errors(text: &str) -> Vec<String> {
    let file: toml::Value = toml::from_str(text).expect("TOML");
    let file = serde_json::to_value(file).expect("JSON");
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let errors = validator.iter_errors(&file);
    errors.map(|error| error.to_string()).collect()
}

#[test]
fn published_schema_matches_the_types() {
    assert_derived("docs/proxy.schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn example_files_match_the_schema() {
    assert_eq!(errors(&read("packaging/config/proxy.toml")), [""; 0]);
    let page = read("docs/proxy.md");
    let blocks: Vec<_> = page.split("```toml\n").skip(1).collect();
    assert!(!blocks.is_empty(), "the page has an example");
    for block in blocks {
        let block = block.split("```").next().unwrap_or_default();
        assert_eq!(errors(block), [""; 0], "{block}");
    }
}

#[test]
fn wrong_keys_and_values_do_not_match_the_schema() {
    for wrong in [
        "event_loop = 2",
        "event_loops = \"2\"",
        "[limits]\nconnection = 1",
        "[limits]\nconnections = 0",
        "[admin]\nport = 1",
        "[admin.sessions]\ntoken = \"a\"",
        "[admin.tls]\ncertificate = \"a.pem\"",
        "[watchdog]\nstall = 1",
        "[[cluster]]\nupstreams = \"a:1\"",
        "[[cluster]]\nupstream = 9092",
        "[[cluster]]\n[cluster.tls]\nkey = \"k\"",
        "[[cluster]]\n[cluster.upstream_tls]\ncas = \"k\"",
        "[[cluster]]\n[[cluster.filter]]\ntype = \"lowercase\"",
        "[[cluster]]\n[[cluster.filter]]\ntype = \"lower-case\"\ntopic = \"a\"",
        "[[cluster]]\n[[cluster.filter]]\ntype = \"lower-case\"\non = [\"consume\"]",
        "[[cluster]]\n[[cluster.filter]]\ntype = \"set-header\"\nname = \"a\"",
        "[[cluster]]\n[[cluster.filter]]\ntype = \"delay\"\ndelay_ms = 5\nwith = \"a\"",
    ] {
        assert_ne!(errors(wrong), [""; 0], "{wrong}");
    }
}

#[test]
fn each_filter_matches_the_schema_with_its_keys() {
    for keys in [
        "type = \"lower-case\"",
        "type = \"upper-case\"\ntopics = [\"a*\"]\non = [\"produce\", \"fetch\"]",
        "type = \"set-header\"\nname = \"a\"\nvalue = \"b\"",
        "type = \"remove-header\"\nname = \"a\"",
        "type = \"mask\"\nmembers = [\"a.b\"]\nwith = \"-\"",
        "type = \"require\"\njson = true\nheaders = [\"a\"]",
        "type = \"delay\"\ndelay_ms = 5",
    ] {
        let file = format!("[[cluster]]\nupstream = \"a:1\"\n[[cluster.filter]]\n{keys}");
        assert_eq!(errors(&file), [""; 0], "{keys}");
        toml::from_str::<RawFile>(&file).expect(keys);
    }
    assert_eq!(schema()["additionalProperties"], json!(false));
}
