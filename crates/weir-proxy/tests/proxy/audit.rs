//! The audit log of the proxy.

use std::path::Path;

use serde_json::{Value as Json, json};
use weir_lab::derived_file::assert_derived;

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

const SCHEMA: &str = "docs/proxy-audit.schema.json";

/// Fails unless all lines match the published schema.
fn assert_matches_schema(lines: &[Json]) {
    let path = format!("{}/../../{SCHEMA}", env!("CARGO_MANIFEST_DIR"));
    let schema = std::fs::read_to_string(path).expect("a schema");
    let schema = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for line in lines {
        let errors: Vec<_> = validator.iter_errors(line).collect();
        assert!(errors.is_empty(), "{line}: {errors:?}");
    }
}

/// After a change of the types: `WEIR_UPDATE_FILES=1 cargo test -p weir-proxy --test proxy schema`.
#[test]
fn published_audit_schema_matches_the_types() {
    let mut schema = weir_rules::audit::line_schema();
    schema["$id"] = "weir-proxy-audit-1".into();
    schema["title"] = "Line of the audit log of Weir's proxy".into();
    assert_derived(SCHEMA, &format!("{schema:#}\n"));
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
    wrong.client_id = "app-0";
    assert_eq!(
        plain_as(&mut wrong, USER, "not-the-password").error_code,
        58
    );
    let mut raw = Raw::connect(proxy.address);
    raw.client_id = "app-1";
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
            vec![
                ("reason", "credentials"),
                ("mechanism", "PLAIN"),
                ("client_id", "app-0"),
            ],
        ),
        (
            "login",
            vec![
                ("mechanism", "PLAIN"),
                ("cluster", "default"),
                ("client_id", "app-1"),
            ],
        ),
        (
            "denied",
            vec![
                ("api", "Metadata"),
                ("resource", foreign.as_str()),
                ("decision", "denied"),
                ("rule", "none"),
                ("client_id", "app-1"),
            ],
        ),
        (
            "admin",
            vec![("api", "CreateTopics"), ("client_id", "app-1")],
        ),
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
    for (event, code) in [("login_failed", json!(58)), ("denied", json!(29))] {
        assert_eq!(of(&all, event)[0]["error_code"], code, "{event}");
    }
    assert_eq!(of(&all, "login")[0]["error_code"], Json::Null);
    assert_matches_schema(&all);
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
fn denials_name_rule_and_error_code_of_the_response() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let denied = topic(&broker(), "ruled", 1, 1);
    let group = unique("group");
    let acls = dir.path().join("acls.txt");
    let listing = format!(
        "Current ACLs for resource `ResourcePattern(resourceType=GROUP, name={group}, \
         patternType=LITERAL)`: \n \t(principal=User:ANONYMOUS, host=*, operation=READ, \
         permissionType=DENY)\n"
    );
    std::fs::write(&acls, listing).expect("writes");
    let rule = |effect: &str, topics: &str| {
        format!(
            "[[cluster.access.rule]]\neffect = {effect:?}\nprincipals = [\"User:*\"]\n\
             operations = [\"all\"]\ntopics = [{topics:?}]\n"
        )
    };
    let proxy = proxy(&format!(
        "[audit]\npath = {path:?}\n---\n[cluster.access]\nacls = {acls:?}\n{}{}",
        rule("allow", "*"),
        rule("deny", &denied),
    ));
    let mut json = JsonConnection::connect(proxy.address);
    json.0.client_id = "app-2";
    let ids = Ids::new();
    assert_eq!(topic_errors(&mut json.0, &[&denied]), [29]);
    let body = json!({ "GroupId": group, "MemberId": "m", "GenerationId": 1 });
    let heartbeat = json.exchange(12, 4, &body, &ids);
    assert_eq!(heartbeat["ErrorCode"], 30, "{heartbeat}");
    let body = json!({ "TransactionalId": "t", "TransactionTimeoutMs": 1_000, "ProducerId": -1,
                       "ProducerEpoch": -1 });
    let init = json.exchange(22, 4, &body, &ids);
    assert_eq!(init["ErrorCode"], 53, "{init}");
    // A dry run denies nothing, so there is no error code.
    let text = proxy.config_text();
    let text = text.replace(
        "[cluster.access]\n",
        "[cluster.access]\nmode = \"dry-run\"\n",
    );
    proxy.write_config(&text, "");
    proxy.get().reload().expect("reloaded");
    assert_eq!(topic_errors(&mut json.0, &[&denied]), [0]);
    await_that("four denials", || of(&lines(&path), "denied").len() == 4);
    let all = lines(&path);
    let found: Vec<_> = of(&all, "denied")
        .into_iter()
        .map(|line| {
            assert_eq!(line["client_id"], "app-2", "{line}");
            let rule = line["rule"].as_str().expect("a rule");
            let at = rule.rsplit('/').next().expect("a name");
            (at.to_owned(), line["error_code"].clone())
        })
        .collect();
    let expected = [
        ("rule 2", json!(29)),
        ("acls.txt:2", json!(30)),
        ("none", json!(53)),
        ("rule 2", Json::Null),
    ];
    assert_eq!(found, expected.map(|(rule, code)| (rule.to_owned(), code)));
    assert_matches_schema(&all);
}

/// Returns a DeleteTopics request of version 1 whose header announces a `client.id` of `length`.
fn delete_topics(client_id: &str, length: i16, topic: &str) -> Vec<u8> {
    let mut frame = [&20_i16.to_be_bytes()[..], &[0, 1], &[0, 0, 0, 9]].concat();
    frame.extend(length.to_be_bytes());
    frame.extend(client_id.as_bytes());
    frame.extend(1_i32.to_be_bytes());
    frame.extend((topic.len() as i16).to_be_bytes());
    frame.extend(topic.as_bytes());
    frame.extend(30_000_i32.to_be_bytes());
    [&(frame.len() as i32).to_be_bytes()[..], &frame].concat()
}

#[test]
fn requests_in_pieces_and_invalid_client_ids_are_recorded() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.log");
    let proxy = proxy(&format!("[audit]\npath = {path:?}\n---\n"));
    let first = topic(&broker(), "pieces", 1, 1);
    let mut slow = Raw::connect(proxy.address);
    for byte in delete_topics("app-3", 5, &first) {
        slow.send(&[byte]);
    }
    let response = slow.receive();
    assert_eq!(response[response.len() - 2..], [0, 0], "no error");
    // A length beyond the end of the request; the broker closes the connection.
    let mut invalid = Raw::connect(proxy.address);
    invalid.send(&delete_topics("app-4", i16::MAX, &first));
    invalid.until_closed();
    await_that("two changes", || of(&lines(&path), "admin").len() == 2);
    let all = lines(&path);
    let found = of(&all, "admin");
    assert_eq!(found[0]["client_id"], "app-3", "{}", found[0]);
    assert_eq!(found[1]["client_id"], Json::Null, "{}", found[1]);
    assert_matches_schema(&all);
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
