//! The audit log of the proxy.

use std::path::Path;

use serde_json::Value as Json;

use super::logins::{UserStore, plain_as, topic_errors};
use super::messages::{Ids, JsonConnection};
use super::support::*;

fn lines(path: &Path) -> Vec<Json> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let parsed = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    parsed.collect()
}

fn of<'a>(lines: &'a [Json], event: &str) -> Vec<&'a Json> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn logins_denials_changes_and_reloads_are_recorded() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let own = topic(&broker(), "own", 1, 1);
    let foreign = topic(&broker(), "foreign", 1, 1);
    let store = UserStore::new();
    let rule = |operations: &str, resources: &str| {
        format!(
            "[[cluster.access.rule]]\neffect = \"allow\"\nprincipals = [\"User:{USER}\"]\n\
             operations = [{operations}]\n{resources}\n"
        )
    };
    let rules = [
        rule("\"read\"", &format!("topics = [{own:?}]")),
        rule("\"create\"", "topics = [\"made-*\"]"),
    ];
    let proxy = proxy(&format!(
        "[audit]\npath = {path:?}\nname = \"proxy-1\"\n---\n{}[cluster.access]\n{}",
        store.table("failed_delay_ms = 0"),
        rules.concat()
    ));
    let mut wrong = Raw::connect(proxy.address);
    assert_eq!(
        plain_as(&mut wrong, USER, "not-the-password").error_code,
        58
    );
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(plain_as(&mut raw, USER, PASSWORD).error_code, 0);
    for _ in 0..3 {
        assert_eq!(topic_errors(&mut raw, &[&own, &foreign]), [0, 29]);
    }
    let name = unique("made");
    let body = serde_json::json!({
        "Topics": [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}],
        "timeoutMs": 30_000,
    });
    let made = JsonConnection(raw).exchange(19, 5, &body, &Ids::new());
    assert_eq!(made["Topics"][0]["ErrorCode"], 0, "{made}");
    proxy.get().reload().expect("reloaded");
    await_that("the reload in the audit log", || {
        !of(&lines(&path), "reload").is_empty()
    });

    let all = lines(&path);
    for (number, line) in all.iter().enumerate() {
        assert_eq!(line["seq"], number + 1, "{line}");
        assert_eq!(line["proxy"], "proxy-1");
        assert!(
            line["time"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z'))
        );
    }
    assert_eq!(of(&all, "connect").len(), 2);
    let principal = format!("User:{USER}");
    for (event, members) in [
        (
            "login_failed",
            vec![("reason", "credentials"), ("mechanism", "PLAIN")],
        ),
        (
            "login",
            vec![("mechanism", "PLAIN"), ("cluster", "default")],
        ),
        (
            "denied",
            vec![
                ("api", "Metadata"),
                ("resource", foreign.as_str()),
                ("decision", "denied"),
            ],
        ),
        ("admin", vec![("api", "CreateTopics")]),
    ] {
        let found = of(&all, event);
        assert_eq!(found.len(), 1, "{event}: {found:?}");
        assert_eq!(found[0]["principal"], principal.as_str(), "{event}");
        let client = found[0]["client_address"].as_str();
        assert!(client.is_some_and(|client| client.starts_with("127.0.0.1:")));
        for (key, value) in members {
            assert_eq!(found[0][key], value, "{event}: {}", found[0]);
        }
    }
    assert_eq!(of(&all, "reload")[0]["generation"], 2);
    assert_eq!(
        proxy.metric("weir_proxy_audit_records_total"),
        all.len() as u64
    );
    assert_eq!(proxy.metric("weir_proxy_audit_dropped_total"), 0);
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(!text.contains("not-the-password") && !text.contains(PASSWORD));
}

#[test]
fn unwritable_records_are_counted_without_waiting() {
    let proxy = proxy("[audit]\npath = \"/dev/full\"\nqueue = 1\n---\n");
    let topic = topic(&proxy.bootstrap(), "audited", 1, 1);
    let values = numbered("audited", 50);
    produce(&client_config(&proxy.bootstrap()), &topic, &values);
    await_that("dropped records", || {
        proxy.metric("weir_proxy_audit_dropped_total") > 0
    });
    assert_eq!(consume(&proxy.bootstrap(), &topic, 50), values);
}
