//! Tests of the built-in plans, overrides, rejected plans and thresholds.

use std::time::Duration;

use weir_stats::run::{
    Cell, CellStatus, DeliveryTotals, LatencySummary, RoleUsage, STAGE_RESPONSE, ThresholdResult,
    ThresholdStatus,
};

use super::threshold::ThresholdMetric;
use super::*;

/// Returns a built-in plan over numbers of clients or rates.
pub(crate) fn built_in(name: &str) -> Valid<Plan> {
    match AnyPlan::built_in(name) {
        Some(Ok(AnyPlan::Clients(plan))) => plan,
        other => panic!("{other:?}"),
    }
}

fn keyed() -> Valid<Plan> {
    built_in("keyed")
}

fn parse(text: &str) -> Valid<Plan> {
    Valid::parse(text, "my.toml", &|_| None).unwrap()
}

fn error_of(text: &str) -> String {
    let error = AnyPlan::parse(text, "my.toml", &|_| None);
    error.unwrap_err().to_string()
}

/// Returns the built-in plan `keyed` with one line replaced.
fn keyed_text_with(from: &str, to: &str) -> String {
    let keyed = BUILT_IN.iter().find(|plan| plan.name == "keyed");
    let text = keyed.unwrap().text;
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

#[test]
fn built_in_plans_parse_under_their_name() {
    for built_in in BUILT_IN {
        let any = AnyPlan::built_in(built_in.name).unwrap().unwrap();
        assert_eq!(any.question().0, built_in.name);
        assert_eq!(any.full_scale().is_some(), any.estimate().is_some());
        let AnyPlan::Clients(plan) = any else {
            assert!(built_in.configs.is_empty());
            continue;
        };
        let subjects = plan.subjects().len();
        match plan.is_grid() {
            true => assert!(subjects == 1 + usize::from(!plan.variants.is_empty())),
            // One that no publication has, with a shape for plain consumers only.
            false if plan.reference.is_none() => {
                assert_eq!(plan.architectures, [Architecture::Groups], "{}", plan.name);
            }
            false => assert_eq!(plan.architectures, Architecture::ALL, "{}", plan.name),
        }
        assert_eq!(plan.gateway_config, built_in.configs[0].1);
        let server = built_in.configs.get(1).map(|(_, text)| (*text).to_owned());
        assert_eq!(plan.server_config, server);
        let Some(reference) = &plan.reference else {
            assert_eq!(plan.name, "topics-and-groups");
            continue;
        };
        let published = reference.rows.clone();
        // Every published level is a level of the plan.
        assert!(
            published
                .iter()
                .all(|row| plan.levels.contains(&row.clients))
        );
        let ours = if plan.is_grid() { "gateway" } else { "groups" };
        assert!(
            published
                .iter()
                .any(|row| row.architecture.as_deref() == Some(ours))
        );
    }
    let plan = keyed();
    assert_eq!(plan.workload.rate_per_s, 100.0);
    assert_eq!(plan.hold, Duration::from_secs(60));
    assert!(AnyPlan::built_in("none").is_none());
    let published = plan.reference.clone().unwrap().rows;
    assert_eq!(published.len(), 27);
    let sustained = published.iter().filter(|row| row.sustained);
    assert!(sustained.clone().all(|row| row.latency_mean_ms.is_some()) && sustained.count() == 16);
}

#[test]
fn plans_have_the_published_loads() {
    let load = |name: &str| {
        let workload = built_in(name).workload.clone();
        (
            workload.kind.to_string(),
            workload.producers,
            workload.rate_per_s,
        )
    };
    assert_eq!(load("broadcast"), ("base".to_owned(), 2, 4.0));
    assert_eq!(load("keyed"), ("keyed".to_owned(), 10, 100.0));
    assert_eq!(load("json-fields"), ("complex".to_owned(), 10, 100.0));
    assert_eq!(load("json-patch"), load("json-fields"));
}

#[test]
fn shapes_of_the_load_must_fit_the_plan() {
    let plan = BUILT_IN
        .iter()
        .find(|plan| plan.name == "topics-and-groups");
    let text = plan.unwrap().text;
    let groups = built_in("topics-and-groups");
    // 32 consumers: of each topic, two groups of four.
    assert_eq!(groups.receivers_per_record(Architecture::Groups, 32), 2.0);
    assert_eq!(
        groups.receivers_per_record(Architecture::Standalone, 32),
        8.0
    );
    for (from, to, key) in [
        ("[\"groups\"]", "[\"groups\", \"gateway\"]", "architectures"),
        ("scenario = \"1\"", "scenario = \"2\"", "clients.scenario"),
        ("producers = 8", "producers = 3", "topics.count"),
        ("[32, 64, 128]", "[32, 40]", "levels"),
        (
            "group_members = 4",
            "group_members = 0",
            "consumers.group_members",
        ),
        // Times four topics, this does not fit 64 bits.
        (
            "group_members = 4",
            "group_members = 4611686018427387904",
            "levels",
        ),
        (
            "backlog = \"20s\"",
            "backlog = \"60s\"",
            "consumers.backlog",
        ),
        ("count = 4", "count = 0", "topics.count"),
        (
            "replication_factor = 1",
            "replication_factor = 0",
            "topics.replication_factor",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        let error = error_of(&text.replacen(from, to, 1));
        assert!(
            error.starts_with(&format!("my.toml: {key}")),
            "{from}: {error}"
        );
    }
}

#[test]
fn plans_use_own_or_built_in_configurations() {
    let text = keyed_text_with("keyed-adapters.xml", "mine.xml");
    let missing = error_of(&text);
    assert!(
        missing.starts_with("my.toml: clients.adapters = mine.xml: no such file"),
        "{missing}"
    );
    let read_sibling = |file: &str| (file == "mine.xml").then(|| "<mine/>".to_owned());
    let plan: Valid<Plan> = Valid::parse(&text, "my.toml", &read_sibling).unwrap();
    assert_eq!(plan.gateway_config, "<mine/>");
    let other = keyed_text_with("keyed-adapters.xml", "broadcast-adapters.xml");
    let plan = parse(&other);
    assert!(plan.gateway_config.contains("item-template.ltest\">ltest<"));
    let scenario = error_of(&keyed_text_with("scenario = \"2\"", "scenario = \"7\""));
    assert!(scenario.contains("unknown scenario \"7\""), "{scenario}");
}

#[test]
fn overrides_are_applied_and_checked() {
    let plan = keyed().quick("keyed.toml").unwrap();
    assert_eq!(plan.levels, [1000]);
    assert_eq!(plan.repetitions, 3);
    let none = PlanOverrides {
        levels: Some(Vec::new()),
        ..PlanOverrides::default()
    };
    let error = keyed().with(none, "command line").unwrap_err();
    assert_eq!(
        error.to_string(),
        "command line: levels = []: list at least one number"
    );
}

#[test]
fn errors_name_file_line_and_key() {
    let unknown = error_of(&keyed_text_with("repetitions = 1", "repetition = 1"));
    assert!(
        unknown.starts_with("my.toml:11: unknown field `repetition`"),
        "{unknown}"
    );
    let nested = error_of(&keyed_text_with("kind = \"keyed\"", "kind = \"keyd\""));
    assert!(nested.contains("unknown kind \"keyd\"") && nested.starts_with("my.toml:"));
    let missing = error_of(&keyed_text_with("hold = \"60s\"", ""));
    assert!(missing.contains("missing field `hold`"), "{missing}");
    let duration = error_of(&keyed_text_with("hold = \"60s\"", "hold = \"60\""));
    assert!(duration.contains("\"60\" is not a duration"), "{duration}");
    assert!(duration.starts_with("my.toml:16: "), "{duration}");
    let zero = error_of(&keyed_text_with("rate_per_s = 100", "rate_per_s = 0"));
    assert_eq!(
        zero,
        "my.toml: workload.rate_per_s = 0: use a number above 0"
    );
    let quick = error_of(&keyed_text_with(
        "[quick]\nrepetitions = 3\nlevels = [1000]",
        "[quick]\nlevels = [0]",
    ));
    assert_eq!(quick, "my.toml: levels = 0: use at least 1 client");
}

/// With fewer than three repetitions a comparison is never conclusive.
#[test]
fn quick_plans_have_three_repetitions_within_five_minutes() {
    for built_in in BUILT_IN {
        let plan = AnyPlan::built_in(built_in.name).unwrap().unwrap();
        let plan = plan.quick("quick").unwrap();
        let Some(estimate) = plan.estimate() else {
            continue;
        };
        let time = estimate.time;
        let repetitions = match plan {
            AnyPlan::Clients(plan) => plan.repetitions,
            AnyPlan::Sweep(plan) => plan.repetitions,
            other => panic!("{other:?}"),
        };
        assert!(repetitions >= 3, "{}", built_in.name);
        assert!(
            time <= Duration::from_secs(300),
            "{}: {time:?}",
            built_in.name
        );
    }
}

#[test]
fn grids_have_points_and_variant_configurations() {
    let plan = built_in("filter-basic");
    let rates: Vec<f64> = plan.points().iter().map(|point| point.rate_per_s).collect();
    assert_eq!(rates, [64_000.0, 80_000.0, 100_000.0]);
    let names: Vec<String> = plan.subjects().iter().map(Subject::name).collect();
    assert_eq!(names, ["gateway 1-thread", "gateway 4-threads"]);
    let threads = "num.threads\">";
    for (variant, expected) in [(None, "1<"), (Some("4-threads"), "4<")] {
        let config = plan.gateway_config_of(variant);
        assert!(config.contains(&format!("{threads}{expected}")), "{config}");
    }
    let matrix = built_in("filter-matrix");
    let matrix = matrix.quick("quick").unwrap();
    let points = matrix.points();
    assert_eq!(points.len(), 4);
    assert_eq!((points[1].clients, points[1].rate_per_s), (1000, 500.0));
    let one_rate = PlanOverrides {
        rate_per_s: Some(70.0),
        ..PlanOverrides::default()
    };
    let ladder = matrix.with(one_rate, "command line").unwrap();
    assert!(!ladder.is_grid() && ladder.points()[0].rate_per_s == 70.0);
}

#[test]
fn invalid_grids_are_rejected() {
    let basic = built_in("filter-basic");
    let with = |rates: &[f64]| {
        let overrides = PlanOverrides {
            rates_per_s: Some(rates.to_vec()),
            ..PlanOverrides::default()
        };
        basic.with(overrides, "f").map(|_| ())
    };
    assert_eq!(with(&[2000.0]), Ok(()));
    let error = |rates: &[f64]| with(rates).unwrap_err().to_string();
    assert_eq!(
        error(&[2000.0, -1.0]),
        "f: rates_per_s = -1: use a number above 0"
    );
    assert!(error(&[900.0]).starts_with("f: workload.marked_per_s = 1000: use less"));
    let text = basic_text().replace("\"4-threads\"", "\"1-thread\"");
    let repeated = error_of(&text);
    assert_eq!(
        repeated,
        "my.toml: variants.name = 1-thread: give every variant a unique name"
    );
}

fn basic_text() -> &'static str {
    let found = BUILT_IN.iter().find(|plan| plan.name == "filter-basic");
    found.unwrap().text
}

fn cell(architecture: &str, clients: u64, cpu: Option<f64>) -> Cell {
    Cell {
        architecture: architecture.to_owned(),
        clients,
        delivery: Some(DeliveryTotals {
            lost: 3,
            ..DeliveryTotals::default()
        }),
        roles: vec![RoleUsage {
            role: architecture.to_owned(),
            cpu_us_per_delivered: cpu,
            ..RoleUsage::default()
        }],
        ..Cell::default()
    }
}

#[test]
fn thresholds_compare_means_of_valid_cells() {
    let mut broken = cell("gateway", 10_000, Some(900.0));
    broken.status = CellStatus::Invalid {
        reasons: Vec::new(),
    };
    let cells = [
        cell("gateway", 10_000, Some(13.0)),
        cell("gateway", 10_000, Some(11.0)),
        broken,
        cell("floor", 10_000, Some(10.0)),
        cell("gateway", 20, Some(99.0)),
    ];
    let results = evaluate(&keyed().thresholds, &cells);
    let is_checked = |it: &&ThresholdResult| it.status != ThresholdStatus::NotChecked;
    let checked = results.iter().filter(is_checked).count();
    assert_eq!(checked, 1, "only declared levels count");
    let actual = results[0].actual.unwrap();
    assert!((actual - 143.0_f64.sqrt() / 10.0).abs() < 1e-9, "{actual}");
    assert_eq!(results[0].status, ThresholdStatus::Passed);
    assert_eq!(
        results[0].expression,
        "gateway.cpu_us_per_delivered / floor.cpu_us_per_delivered <= 1.35"
    );
    let without_floor = evaluate(&keyed().thresholds, &cells[..3]);
    assert_eq!(without_floor[0].actual, None);
    assert_eq!(without_floor[0].status, ThresholdStatus::NotChecked);
    let reason = without_floor[0].reason.as_deref();
    assert_eq!(reason, Some("floor has no value at this level"));
    let elsewhere = evaluate(&keyed().thresholds, &cells[4..]);
    assert_eq!(elsewhere[0].status, ThresholdStatus::NotChecked);
    let reason = elsewhere[0].reason.as_deref();
    assert_eq!(reason, Some("this level was not measured"));
}

#[test]
fn highest_threshold_uses_last_level_both_sustained() {
    let broadcast = built_in("broadcast");
    let thresholds: Vec<Threshold> = broadcast.thresholds.clone();
    let at = |architecture: &str, clients, mean_ms: f64| {
        let summary = LatencySummary {
            mean_us: Some(mean_ms * 1e3),
            ..LatencySummary::default()
        };
        let mut cell = cell(architecture, clients, None);
        cell.latency.insert(STAGE_RESPONSE.to_owned(), summary);
        cell
    };
    let mut cells = vec![
        at("standalone", 1000, 10.0),
        at("gateway", 1000, 12.0),
        at("standalone", 2000, 40.0),
        at("gateway", 2000, 20.0),
        at("standalone", 4000, 1500.0),
        at("gateway", 4000, 30.0),
    ];
    let unlimited = evaluate(&thresholds, &cells);
    let mut statuses = unlimited.iter().map(|it| it.status);
    assert!(
        statuses.all(|it| it == ThresholdStatus::NotChecked),
        "{unlimited:?}"
    );
    cells[4].not_sustained = Some("mean response 1500 ms, limit 1000 ms".to_owned());
    let results = evaluate(&thresholds, &cells);
    let checked = results.iter();
    let mut checked = checked.filter(|it| it.status != ThresholdStatus::NotChecked);
    let only = checked.next().unwrap();
    assert_eq!(only.scope, "2000 clients");
    assert_eq!(
        (only.status, only.actual),
        (ThresholdStatus::Passed, Some(0.5))
    );
    assert_eq!(checked.next(), None);
}

#[test]
fn absolute_thresholds_apply_to_every_level() {
    let threshold = Threshold {
        metric: ThresholdMetric::Lost,
        of: Architecture::Gateway,
        relative_to: None,
        clients: None,
        highest: false,
        at_most: 2.0,
    };
    let results = evaluate(
        &[threshold],
        &[cell("gateway", 1, None), cell("gateway", 2, None)],
    );
    assert_eq!(results.len(), 2);
    assert!(
        results
            .iter()
            .all(|it| it.status == ThresholdStatus::Failed && it.actual == Some(3.0))
    );
    assert_eq!(results[1].scope, "2 clients");
}

#[test]
fn aa_test_has_two_identical_variants() {
    let names =
        |plan: &Plan| -> Vec<String> { plan.subjects().iter().map(Subject::name).collect() };
    let keyed = built_in("keyed").aa_test().unwrap();
    assert_eq!(names(&keyed), ["gateway A", "gateway A again"]);
    let config = |name| keyed.gateway_config_of(Some(name));
    assert_eq!(config("A"), config("A again"));
    let threads = built_in("filter-basic");
    let threads = threads.aa_test().unwrap();
    assert_eq!(
        names(&threads),
        ["gateway 1-thread", "gateway 1-thread again"]
    );
    assert_eq!(threads.variants[1].threads, Some(1));
    let floor = PlanOverrides {
        architectures: Some(vec![Architecture::Floor]),
        ..PlanOverrides::default()
    };
    let floor = built_in("keyed").with(floor, "command line").unwrap();
    let error = floor.aa_test().unwrap_err().to_string();
    assert!(error.contains("--aa-test = keyed: use a plan"), "{error}");
}

#[test]
fn schema_keys_need_kinds_with_a_schema() {
    for (lines, message) in [
        (
            "kind = \"json\"\nschema = \"a.avsc\"",
            "workload.schema = a.avsc",
        ),
        ("kind = \"keyed\"\nschema_id = 5", "workload.schema_id = 5"),
        (
            "kind = \"avro\"\nschema_id = 5\nregistry = \"http://a:1\"",
            "workload.schema_id = 5",
        ),
        ("kind = \"avr\"", "unknown kind \"avr\""),
    ] {
        let error = error_of(&keyed_text_with("kind = \"keyed\"", lines));
        assert!(error.contains(message), "{error}");
    }
    for (lines, size) in [
        ("kind = \"keyed\"", Some(1024)),
        (
            "kind = \"avro\"\nschema = \"a.avsc\"\nregistry = \"http://a:1\"",
            None,
        ),
        ("kind = \"protobuf\"\nschema_id = 5", None),
    ] {
        let text = keyed_text_with("kind = \"keyed\"", lines);
        let text = text.replacen("size_bytes = 1024", "", 1);
        let Ok(AnyPlan::Clients(plan)) = AnyPlan::parse(&text, "my.toml", &|_| None) else {
            panic!("{lines}");
        };
        assert_eq!(plan.workload.size(), size, "{lines}");
    }
}

#[test]
fn schema_placeholder_needs_a_file() {
    let config = |_: &str| Some("schema.path @SCHEMA@".to_owned());
    for (kind, is_valid) in [
        ("avro", true),
        ("json2", true),
        ("protobuf", false),
        ("json", false),
    ] {
        let text = keyed_text_with("kind = \"keyed\"", &format!("kind = \"{kind}\""));
        let plan = AnyPlan::parse(&text, "my.toml", &config);
        assert_eq!(plan.is_ok(), is_valid, "{kind}: {plan:?}");
        if let Err(error) = plan {
            assert!(
                error.to_string().contains("clients.adapters = @SCHEMA@"),
                "{error}"
            );
        }
    }
}
