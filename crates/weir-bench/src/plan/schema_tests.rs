//! `docs/plan.schema.json` against the types of plan files and the built-in plans.
//!
//! The schema is derived from the types. After a change:
//! `WEIR_UPDATE_FILES=1 cargo test -p weir-bench --lib schema`.

use schemars::SchemaGenerator;
use serde_json::{Value, json};
use strum::VariantArray as _;
use weir_lab::derived_file::assert_derived;
use weir_load::clients::{Mode, Scenario};
use weir_load::payload::PayloadKind;

use super::{AnyPlan, BUILT_IN, Plan};
use crate::libraries::LibrariesPlan;
use crate::overhead::OverheadPlan;
use crate::sweep::SweepPlan;

/// Tables that ignore unknown keys: those of results, in which plans quote published ones.
const FREE: [&str; 2] = ["ReferenceFigures", "ReferenceRow"];

fn schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let kinds = [
        generator.subschema_for::<Plan>(),
        generator.subschema_for::<SweepPlan>(),
        generator.subschema_for::<OverheadPlan>(),
        generator.subschema_for::<LibrariesPlan>(),
    ];
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "weir-plan-1",
        "title": "Plan of weir bench",
        "oneOf": kinds,
        "$defs": generator.take_definitions(true),
    });
    let kinds: Vec<String> = PayloadKind::VARIANTS
        .iter()
        .map(ToString::to_string)
        .collect();
    let scenarios: Vec<&str> = Scenario::VARIANTS.iter().map(|it| it.name()).collect();
    let modes = [Mode::Raw, Mode::Merge, Mode::Distinct, Mode::Command].map(Mode::as_str);
    for (definition, key, names) in [
        ("Workload", "kind", json!(kinds)),
        ("ClientsPlan", "scenario", json!(scenarios)),
        ("ClientsPlan", "mode", json!(modes)),
    ] {
        let named = &mut schema["$defs"][definition]["properties"][key];
        assert!(named.is_object(), "{key}");
        named["enum"] = names;
    }
    schema
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
    assert_derived("docs/plan.schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn built_in_plans_match_the_schema() {
    for plan in BUILT_IN {
        let text = plan.text_with_bars().expect(plan.file);
        assert_eq!(errors(&text), [""; 0], "{}", plan.file);
    }
}

/// Each wrong line is added to a built-in plan, which matches without it.
#[test]
fn wrong_keys_and_values_do_not_match_the_schema() {
    let all = schema();
    let definitions = all["$defs"].as_object().expect("definitions");
    for (name, table) in definitions
        .iter()
        .filter(|it| it.1["properties"].is_object())
    {
        let is_free = FREE.contains(&name.as_str());
        assert!(is_free || table["additionalProperties"] == false, "{name}");
    }
    for (plan, wrong) in [
        ("keyed", "level = [1]"),
        ("keyed", "subjects = [\"direct\"]"),
        ("keyed", "grid_rates_per_s = [1]"),
        ("broker-sweep", "levels = [1]"),
        ("proxy-overhead", "repetition = 1"),
        ("proxy-overhead", "external_proxies = [\"a\"]"),
        ("client-libraries", "library = \"java\""),
        ("client-libraries", "aa_test = 1"),
    ] {
        let found = BUILT_IN.iter().find(|it| it.name == plan).expect(plan);
        assert_ne!(
            errors(&format!("{wrong}\n{}", found.text)),
            [""; 0],
            "{wrong}"
        );
    }
}

#[test]
fn wrong_words_in_tables_do_not_match_the_schema() {
    for (plan, right, wrong) in [
        ("keyed", "ramp_per_s = 1000", "ramp_per_s = \"fast\""),
        ("keyed", "[workload]", "[workload]\nrate = 1"),
        ("keyed", "[workload]", "[workload]\nkinds = \"keyed\""),
        ("keyed", "kind = \"keyed\"", "kind = \"key\""),
        ("keyed", "[clients]", "[clients]\nitems = 1"),
        ("keyed", "scenario = \"2\"", "scenario = \"4\""),
        ("keyed", "\"floor\"", "\"ceiling\""),
        ("keyed", "[quick]", "[quick]\nsize = 1"),
        ("proxy-overhead", "\"relay\"", "\"router\""),
        ("proxy-overhead", "[quick]", "[quick]\nlevels = [1]"),
        ("broker-sweep", "[sweep]", "[sweep]\nsizes = [1]"),
        (
            "client-libraries",
            "profile = \"fair\"",
            "profile = \"good\"",
        ),
    ] {
        let found = BUILT_IN.iter().find(|it| it.name == plan).expect(plan);
        let text = found.text.replacen(right, wrong, 1);
        assert_ne!(text, found.text, "{plan} has {right}");
        assert!(
            AnyPlan::parse(&text, found.file, &|_| None).is_err(),
            "{wrong}"
        );
        assert_ne!(errors(&text), [""; 0], "{wrong}");
    }
}
