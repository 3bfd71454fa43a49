//! Decisions about requests without a broker; equivalence with brokers is tested elsewhere.

use std::path::Path;
use std::sync::Arc;

use weir_wire::message::{self, MessageRow, Value};
use weir_wire::topic_ids::METADATA_VERSION;

use super::session::AccessSession;
use super::table::{FETCH_SESSION_NOT_FOUND, SHARE_SESSION_NOT_FOUND};
use super::*;
use weir_filters::TopicNames;

const RULES: &str = "
    [[rule]]
    principals = [\"User:ANONYMOUS\"]
    operations = [\"read\", \"write\"]
    topics = [\"open-*\"]
    groups = [\"g\"]
";

fn rules(toml: &str) -> Result<Arc<AccessRules>, String> {
    let config: AclConfig = toml::from_str(toml).map_err(|error| error.to_string())?;
    let built = config.build(Path::new(""));
    built.map(Arc::new).map_err(|error| error.to_string())
}

fn session(toml: &str) -> AccessSession {
    let rules = rules(toml).expect("rules");
    let principals = Box::new(["User:ANONYMOUS".into()]);
    AccessSession::new(&rules, principals, [127, 0, 0, 1].into()).expect("no super user")
}

/// Returns the decision about a request with these values.
fn check(
    session: &mut AccessSession,
    (key, version): (i16, i16),
    fill: impl FnOnce(&mut MessageRow<'static>, &'static message::StructDefinition),
) -> RequestDecision {
    let api = message::api(key).expect("known");
    let mut row = MessageRow::new(&api.request, version);
    fill(&mut row, &api.request);
    let mut body = Vec::new();
    let flexible = api.is_flexible(version);
    message::encode(&row, &api.request, version, flexible, &mut body);
    let names = &TopicNames::default();
    let mut access = Access { session, names };
    let verdict = access
        .check((key, version), &[], &body, false)
        .expect("decodes");
    verdict.expect("a known version")
}

fn text(text: &'static str) -> Value<'static> {
    Value::Bytes(Some(text.as_bytes().into()))
}

/// Returns a topic of a Fetch request.
fn fetched(name: &'static str) -> Value<'static> {
    let api = message::api(1).expect("Fetch");
    let inner = error_element::element_definition(&api.request, "Topics").expect("topics");
    let mut topic = MessageRow::new(inner, 12);
    topic.set(inner, "Topic", text(name));
    Value::Rows(Some(vec![topic]))
}

fn fetch(session: &mut AccessSession, epoch: i64, id: i64, topic: &'static str) -> RequestDecision {
    check(session, (1, 12), |row, fields| {
        row.set(fields, "ReplicaId", Value::Int(-1));
        row.set(fields, "SessionEpoch", Value::Int(epoch));
        row.set(fields, "SessionId", Value::Int(id));
        row.set(fields, "Topics", fetched(topic));
    })
}

fn error_of(verdict: &RequestDecision, key: i16, version: i16) -> i16 {
    let api = message::api(key).expect("known");
    let RequestDecision::Respond(body) = verdict else {
        panic!("no response: {verdict:?}");
    };
    let flexible = api.is_flexible(version);
    let row = message::decode(&api.response, version, flexible, body).expect("decodes");
    row.get(&api.response, "ErrorCode").as_int() as i16
}

#[test]
fn fetch_session_is_used_only_where_it_was_opened() {
    let mut session = session(RULES);
    let unknown = fetch(&mut session, 1, 7, "open-1");
    assert_eq!(error_of(&unknown, 1, 12), FETCH_SESSION_NOT_FOUND);
    let RequestDecision::Forward(Some(pending)) = fetch(&mut session, 0, 0, "open-1") else {
        panic!("a full fetch is forwarded");
    };
    assert!(pending.only_opens_session());
    session.note_fetch_session(7);
    assert!(matches!(
        fetch(&mut session, 1, 7, "open-2"),
        RequestDecision::Forward(None)
    ));
    let other = fetch(&mut session, 2, 8, "open-2");
    assert_eq!(error_of(&other, 1, 12), FETCH_SESSION_NOT_FOUND);
    // A denied topic ends the session, so that the client names all topics again.
    let denied = fetch(&mut session, 2, 7, "secret");
    assert_eq!(error_of(&denied, 1, 12), FETCH_SESSION_NOT_FOUND);
    let ended = fetch(&mut session, 3, 7, "open-1");
    assert_eq!(error_of(&ended, 1, 12), FETCH_SESSION_NOT_FOUND);
    // Without a session, the error is that of the topic.
    assert_eq!(error_of(&fetch(&mut session, 0, 0, "secret"), 1, 12), 0);
}

#[test]
fn share_session_is_used_only_where_it_was_opened() {
    let mut session = session(RULES);
    let mut share = |epoch| {
        check(&mut session, (78, 1), |row, fields| {
            row.set(fields, "GroupId", text("g"));
            row.set(fields, "MemberId", text("m"));
            row.set(fields, "ShareSessionEpoch", Value::Int(epoch));
        })
    };
    assert_eq!(error_of(&share(1), 78, 1), SHARE_SESSION_NOT_FOUND);
    assert!(matches!(share(0), RequestDecision::Forward(None)));
    assert!(matches!(share(1), RequestDecision::Forward(None)));
}

#[test]
fn denied_request_without_response_closes_the_connection() {
    let mut session = session(RULES);
    let mut produce = |topic, acks| {
        check(&mut session, (0, 12), |row, fields| {
            let inner = error_element::element_definition(fields, "TopicData").expect("topics");
            let mut data = MessageRow::new(inner, 12);
            data.set(inner, "Name", text(topic));
            row.set(fields, "Acks", Value::Int(acks));
            row.set(fields, "TopicData", Value::Rows(Some(vec![data])));
        })
    };
    assert!(matches!(
        produce("open-1", 0),
        RequestDecision::Forward(None)
    ));
    assert!(matches!(produce("secret", 0), RequestDecision::Close));
    assert!(matches!(produce("secret", 1), RequestDecision::Respond(_)));
}

/// Returns the names of topics whose ids are their lengths.
fn known_names(topics: &[&'static str]) -> TopicNames {
    let response = &message::api(3).expect("Metadata").response;
    let inner = error_element::element_definition(response, "Topics").expect("topics");
    let topics = topics.iter().map(|topic| {
        let mut row = MessageRow::new(inner, METADATA_VERSION);
        row.set(inner, "Name", text(topic));
        row.set(inner, "TopicId", Value::Uuid(topic.len() as u128));
        row
    });
    let mut row = MessageRow::new(response, METADATA_VERSION);
    row.set(response, "Topics", Value::Rows(Some(topics.collect())));
    let mut body = Vec::new();
    message::encode(&row, response, METADATA_VERSION, true, &mut body);
    let names = TopicNames::default();
    names.record(&body, METADATA_VERSION).expect("decodes");
    names
}

/// Returns a Produce request to these topics. From version 13 on, their ids are their lengths.
fn produced(version: i16, transaction: Option<&'static str>, topics: &[&'static str]) -> Vec<u8> {
    let api = message::api(0).expect("Produce");
    let fields = &api.request;
    let inner = error_element::element_definition(fields, "TopicData").expect("topics");
    let topics = topics.iter().map(|topic| {
        let mut data = MessageRow::new(inner, version);
        match version {
            13.. => data.set(inner, "TopicId", Value::Uuid(topic.len() as u128)),
            _ => data.set(inner, "Name", text(topic)),
        }
        data
    });
    let mut row = MessageRow::new(fields, version);
    let transaction = transaction.map(|name| name.as_bytes().into());
    row.set(fields, "TransactionalId", Value::Bytes(transaction));
    row.set(fields, "TopicData", Value::Rows(Some(topics.collect())));
    let mut body = Vec::new();
    message::encode(&row, fields, version, api.is_flexible(version), &mut body);
    body
}

#[test]
fn start_of_a_produce_request_decides_as_the_whole() {
    let own = "[[rule]]\nprincipals = [\"User:ANONYMOUS\"]\noperations = [\"write\"]\n";
    let all = format!("{own}topics = [\"*\"]\n");
    let some = format!("{own}topics = [\"open-*\"]\ntransactional_ids = [\"t\"]\n");
    let mut allowed = 0;
    for (rules, is_all) in [(&all, true), (&some, false)] {
        for version in 0..=13 {
            for transaction in [None, Some("t"), Some("other")] {
                for topics in [
                    &["open-1"][..],
                    &["open-1", "open-22"],
                    &["open-1", "no"],
                    &["no"],
                    &[],
                ] {
                    let body = produced(version, transaction, topics);
                    let names = known_names(&["open-1", "open-22", "no"]);
                    let mut session = session(rules);
                    let mut access = Access {
                        session: &mut session,
                        names: &names,
                    };
                    // Each prefix decides the same, or asks for more.
                    let starts: Vec<_> = (0..=body.len())
                        .filter_map(|end| access.allows_start((0, version), &body[..end]).ok())
                        .collect();
                    let start = *starts.last().expect("the whole is enough");
                    assert!(starts.iter().all(|one| *one == start));
                    let whole = access
                        .check((0, version), &[], &body, true)
                        .expect("decodes");
                    let is_forwarded = matches!(whole, Some(RequestDecision::Forward(None)));
                    let what = format!("{rules}: version {version}, {transaction:?}, {topics:?}");
                    assert!(!start || is_forwarded, "{what}");
                    // Only a request with several topics, or none, is needed as a whole.
                    let is_shown = is_all || topics.len() == 1;
                    assert_eq!(start, is_forwarded && is_shown, "{what}");
                    allowed += usize::from(start);
                }
            }
        }
    }
    assert!(allowed > 0);
}

#[test]
fn dry_run_only_counts() {
    let mut session = session(&format!("mode = \"dry-run\"\n{RULES}"));
    assert!(matches!(
        fetch(&mut session, 0, 0, "secret"),
        RequestDecision::Forward(None)
    ));
    assert!(matches!(
        fetch(&mut session, 0, 0, "open-1"),
        RequestDecision::Forward(None)
    ));
    let counts: Vec<_> = session.rules.counts.rows().collect();
    assert_eq!(counts, [(1, [1, 1])]);
}

#[test]
fn unknown_topic_ids_are_looked_up_and_then_denied() {
    let mut session = session(RULES);
    let fill = |row: &mut MessageRow<'static>, fields: &'static message::StructDefinition| {
        let inner = error_element::element_definition(fields, "TopicData").expect("topics");
        let mut data = MessageRow::new(inner, 13);
        data.set(inner, "TopicId", Value::Uuid(5));
        row.set(fields, "Acks", Value::Int(1));
        row.set(fields, "TopicData", Value::Rows(Some(vec![data])));
    };
    let asked = check(&mut session, (0, 13), fill);
    assert!(matches!(asked, RequestDecision::LookUp(ids) if ids == [5]));
    let api = message::api(0).expect("Produce");
    let mut row = MessageRow::new(&api.request, 13);
    fill(&mut row, &api.request);
    let mut body = Vec::new();
    message::encode(&row, &api.request, 13, true, &mut body);
    let names = &TopicNames::default();
    let session = &mut session;
    let verdict = Access { session, names }.check((0, 13), &[], &body, true);
    assert!(matches!(verdict, Ok(Some(RequestDecision::Respond(_)))));
}

#[test]
fn undecodable_requests_are_not_forwarded() {
    let mut session = session(RULES);
    let names = &TopicNames::default();
    for key in 0..100 {
        let session = &mut session;
        let mut access = Access { session, names };
        for version in 0..20 {
            let cut = access.check((key, version), &[], &[0xff; 3], false);
            let open = [39, 40, 60, 16].contains(&key);
            let is_forwarded = matches!(
                cut,
                Ok(Some(
                    RequestDecision::Forward(_) | RequestDecision::Edited(..)
                ))
            );
            assert!(!is_forwarded || open, "{key} {version}: {cut:?}");
        }
        assert!(
            matches!(access.check((key, 90), &[], &[], false), Ok(None)),
            "{key}"
        );
    }
}

#[test]
fn only_known_versions_are_offered() {
    let max = |key| AccessRules::version_max(key);
    assert_eq!(
        (max(0), max(1), max(68), max(93), max(94)),
        (13, 18, 0, -1, -1)
    );
    assert_eq!((max(4), max(83), max(-1)), (-1, -1, -1));
    assert_eq!(AccessRules::version_min(0), 0);
    assert_eq!(AccessRules::version_min(1), 4);
    assert!(max(3) >= METADATA_VERSION);
}

#[test]
fn invalid_rules_are_errors() {
    let rule = |change: &str| rules(&RULES.replace("groups = [\"g\"]", change));
    assert!(rule("groups = []").is_ok());
    let cases = [
        ("cluste = true", "unknown field"),
        (
            "addresses = [\"host\"]",
            "rule 1: \"host\" is not an address",
        ),
        ("effect = \"maybe\"", "unknown variant"),
    ];
    for (change, wanted) in cases {
        let error = rule(change).expect_err(change);
        assert!(error.contains(wanted), "{error}");
    }
    let cases = [
        ("[[rule]]", "set at least one of principals"),
        ("super_users = [\"admin\"]", "write KIND:NAME"),
        (
            "acls = \"/nowhere/acls.txt\"",
            "cannot read /nowhere/acls.txt",
        ),
        (
            "[[rule]]\nprincipals = [\"User:a\"]\noperations = [\"sing\"]\ncluster = true",
            "unknown operation \"sing\"",
        ),
    ];
    for (toml, wanted) in cases {
        let error = rules(toml).expect_err(toml);
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn super_users_have_no_session() {
    let rules = rules("super_users = [\"User:root\"]").expect("rules");
    let address = [127, 0, 0, 1].into();
    let root = AccessSession::new(&rules, Box::new(["User:root".into()]), address);
    assert!(root.is_none());
    let other = AccessSession::new(&rules, Box::new(["User:x".into()]), address);
    assert!(other.is_some());
}
