//! `docs/audit.schema.json` against the type of audit records and lines of them.
//!
//! The schema is derived from the type; its documentation is the descriptions. After a change:
//! `WEIR_UPDATE_FILES=1 cargo test -p weir-identity --test audit_schema`.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use weir_identity::UserIdentity;
use weir_identity::audit::{AuditEvent, AuditOutcome, AuditRecord};
use weir_lab::derived_file::assert_derived;

fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema: Value = generator.into_root_schema_for::<AuditRecord>().into();
    schema["$id"] = "weir-audit-1".into();
    schema
}

fn line() -> Value {
    let record = AuditRecord::new(
        "gw",
        1_800_000_000_000,
        AuditEvent::Subscribe,
        AuditOutcome::Deny,
    )
    .identity(&UserIdentity::anonymous())
    .session("h1")
    .address("10.0.0.7")
    .subscription("feed", "MERGE", ["a"; 30].into_iter())
    .rule("r")
    .code(-2)
    .reason("item")
    .actor("admin");
    let mut line = String::new();
    record.push_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn published_schema_matches_the_type() {
    assert_derived("docs/audit.schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn lines_match_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let good = line();
    let errors: Vec<_> = validator
        .iter_errors(&good)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    for (name, value) in [
        ("v", json!(2)),
        ("event", json!("login")),
        ("outcome", json!(null)),
        ("ts", json!(5)),
        ("items", json!(vec!["a"; 21])),
        ("auth", json!("password")),
        ("token", json!("x")),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        assert!(!validator.is_valid(&bad), "{name}");
    }
}
