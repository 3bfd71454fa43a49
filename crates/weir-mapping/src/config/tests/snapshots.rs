//! `item.snapshot.*` of connector 2.0.

use std::time::Duration;

use super::*;
use crate::command::CommandMode;
use crate::config::snapshot::{SnapshotConfig, SnapshotMode};

const MODE: &str = "item.snapshot.enabled.mode";

fn connection(extra: &[(&str, &str)]) -> ConnectionConfig {
    let mut file = parse(&with(extra)).expect("valid");
    file.connections.remove(0)
}

fn outcome(connection: &ConnectionConfig, name: &str) -> String {
    let mut parameters = connection.parameters.iter();
    let found = parameters.find(|one| one.name == name).expect(name);
    found.outcome.to_string()
}

#[test]
fn modes_and_defaults() {
    assert_eq!(connection(&[]).snapshots, None);
    assert_eq!(connection(&[(MODE, "NONE")]).snapshots, None);
    for (value, mode, commands) in [
        ("MERGE", SnapshotMode::Merge, CommandMode::AsMapped),
        ("DISTINCT", SnapshotMode::Distinct, CommandMode::AsMapped),
        ("COMMAND", SnapshotMode::Command, CommandMode::Auto),
    ] {
        let one = connection(&[(MODE, value), ("field.key", "#{KEY}")]);
        let expected = SnapshotConfig {
            mode,
            distinct_length: 10,
            max_idle: None,
        };
        assert_eq!(one.snapshots, Some(expected), "{value}");
        assert_eq!(one.mapping.command_mode(), commands, "{value}");
    }
    for value in ["merge", "RAW", "", "MERGE,COMMAND"] {
        assert!(error(&with(&[(MODE, value)])).contains(MODE), "{value}");
    }
}

#[test]
fn length_and_idle_time_are_numbers() {
    let (length, idle) = (
        "item.snapshot.distinct.length",
        "item.snapshot.max.idle.seconds",
    );
    let one = connection(&[(MODE, "DISTINCT"), (length, "3"), (idle, "60")]);
    let snapshots = one.snapshots.expect("snapshots");
    assert_eq!(snapshots.distinct_length, 3);
    assert_eq!(snapshots.max_idle, Some(Duration::from_secs(60)));
    let one = connection(&[(MODE, "MERGE"), (length, "3"), (idle, "0")]);
    assert_eq!(one.snapshots.and_then(|all| all.max_idle), None);
    assert_eq!(
        outcome(&one, length),
        "ignored: read only if item.snapshot.enabled.mode is DISTINCT"
    );
    // The connector checks both without a mode, too.
    for (name, value) in [(length, "0"), (length, "x"), (idle, "-1"), (idle, "1.5")] {
        let text = error(&with(&[(name, value)]));
        let expected = format!("specify a valid value for parameter [{name}]: \"{value}\"");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn snapshots_replace_older_parameters() {
    let replaced = [
        ("record.consume.from", "LATEST"),
        ("group.id", "g"),
        ("record.extraction.error.strategy", "FORCE_UNSUBSCRIPTION"),
        ("record.consume.with.num.threads", "4"),
        ("fields.evaluate.as.command.enable", "true"),
        ("fields.auto.command.mode.enable", "true"),
    ];
    let all = [&[(MODE, "MERGE")], &replaced[..]].concat();
    let one = connection(&all);
    assert_eq!(one.consume_from, ConsumeFrom::Earliest);
    assert_eq!(
        (one.group_id.as_deref(), one.threads),
        (None, Threads::Count(1))
    );
    assert_eq!(one.error_strategy, ErrorStrategy::IgnoreAndContinue);
    assert_eq!(one.mapping.command_mode(), CommandMode::AsMapped);
    let notes = notes(&with(&all));
    for (name, value) in replaced {
        assert!(
            outcome(&one, name).starts_with("ignored: with item.snapshot"),
            "{name}"
        );
        let text = format!("parameter [{name}] = \"{value}\" has no effect");
        let count = notes.iter().filter(|note| note.contains(&text)).count();
        let is_default = name == "fields.auto.command.mode.enable";
        assert_eq!(count, usize::from(!is_default), "{name}: {notes:?}");
    }
    let same = [
        (MODE, "MERGE"),
        ("record.consume.from", "EARLIEST"),
        ("fields.auto.command.mode.enable", "false"),
    ];
    assert!(super::notes(&with(&same)).is_empty());
}

#[test]
fn rows_are_identified_by_the_record_key() {
    let text = error(&with(&[(MODE, "COMMAND")]));
    assert!(
        text.contains(
            "parameter [item.snapshot.enabled.mode] set to [COMMAND] requires [field.key]"
        ),
        "{text}"
    );
    for wrong in ["#{VALUE}", "#{OFFSET}", "#{HEADERS.k}"] {
        let text = error(&with(&[(MODE, "COMMAND"), ("field.key", wrong)]));
        assert!(text.contains("must be an expression on [KEY]"), "{text}");
    }
    let json = ("record.key.evaluator.type", "JSON");
    connection(&[(MODE, "COMMAND"), ("field.key", "#{KEY.id}"), json]);
    let mapped = [
        (MODE, "COMMAND"),
        ("field.key", "#{KEY}"),
        ("field.command", "#{VALUE}"),
    ];
    let notes = notes(&with(&mapped));
    assert!(
        notes[0].contains("[field.command] has no effect"),
        "{notes:?}"
    );
}

#[test]
fn strict_rejects_parameters_of_connector_2() {
    for extra in [(MODE, "NONE"), ("item.snapshot.max.idle.seconds", "0")] {
        let rejected = parse_as(true, &with(&[extra]))
            .expect_err("strict")
            .to_string();
        let expected = format!("parameter [{}] is not known to connector 1.5", extra.0);
        assert!(rejected.contains(&expected), "{rejected}");
    }
}
