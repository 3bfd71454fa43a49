//! Access rules: the same requests at a broker with Kafka's authorizer, and through the proxy with
//! the same rules in front of a broker without an authorizer, have the same responses.

use std::net::SocketAddr;
use std::time::Instant;

use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use kafka_protocol::protocol::StrBytes;
use serde_json::{Value as Json, json};
use weir_lab::{Lab, LabOptions, SecondListener};

use super::messages::{Ids, JsonConnection};
use super::support::*;

/// Resource type, pattern type, name, operation, permission, as numbers of the protocol, and the
/// words of `kafka-acls.sh`. All are about `User:ANONYMOUS`.
const ACLS: [(i8, i8, &str, i8, i8, &str); 9] = [
    (2, 3, "allowed", 2, 3, "TOPIC LITERAL ALL ALLOW"),
    (2, 4, "ok-", 2, 3, "TOPIC PREFIXED ALL ALLOW"),
    (2, 3, "described", 8, 3, "TOPIC LITERAL DESCRIBE ALLOW"),
    (2, 3, "read", 3, 3, "TOPIC LITERAL READ ALLOW"),
    (2, 3, "ok-not", 2, 2, "TOPIC LITERAL ALL DENY"),
    (3, 3, "g", 2, 3, "GROUP LITERAL ALL ALLOW"),
    (3, 3, "gd", 8, 3, "GROUP LITERAL DESCRIBE ALLOW"),
    (5, 3, "t", 2, 3, "TRANSACTIONAL_ID LITERAL ALL ALLOW"),
    (5, 3, "td", 8, 3, "TRANSACTIONAL_ID LITERAL DESCRIBE ALLOW"),
];

const TOPICS: [&str; 6] = ["allowed", "ok-1", "described", "read", "ok-not", "secret"];

/// Returns the ACLs as `kafka-acls.sh --list` prints them.
fn listing() -> String {
    let lines = ACLS.map(|(_, _, name, _, _, words)| {
        let words: Vec<_> = words.split(' ').collect();
        let [kind, pattern, operation, permission] = words[..] else {
            panic!("four words")
        };
        format!(
            "Current ACLs for resource `ResourcePattern(resourceType={kind}, name={name}, \
             patternType={pattern})`: \n \t(principal=User:ANONYMOUS, host=*, \
             operation={operation}, permissionType={permission})\n"
        )
    });
    lines.concat()
}

/// Starts a broker whose own connections are those of a super user.
fn broker_with_authorizer() -> (Lab, SocketAddr) {
    let port = weir_lab::ports::free_port().expect("a port");
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    let jaas =
        format!("{module} username=\"{USER}\" password=\"{PASSWORD}\" user_{USER}=\"{PASSWORD}\";");
    let properties = [
        (
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,SECOND:SASL_PLAINTEXT",
        ),
        ("sasl.mechanism.controller.protocol", "PLAIN"),
        ("listener.name.controller.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.controller.plain.sasl.jaas.config", &jaas),
        ("listener.name.second.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.second.plain.sasl.jaas.config", &jaas),
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("super.users", "User:tester"),
    ];
    let lab = lab_with(LabOptions {
        second_listeners: vec![SecondListener {
            port,
            advertised_port: port,
        }],
        properties: properties
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec(),
        ..LabOptions::default()
    });
    (lab, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn login(address: SocketAddr) -> JsonConnection {
    let mut raw = Raw::connect(address);
    let mechanism = StrBytes::from_static_str("PLAIN");
    let hello = SaslHandshakeRequest::default().with_mechanism(mechanism);
    assert_eq!(raw.exchange(1, &hello).error_code, 0);
    let token = format!("\0{USER}\0{PASSWORD}").into_bytes();
    let token = SaslAuthenticateRequest::default().with_auth_bytes(token.into());
    assert_eq!(raw.exchange(2, &token).error_code, 0);
    JsonConnection(raw)
}

/// Creates the topics with one record each, and returns their ids.
fn create_topics(connection: &mut JsonConnection, bootstrap: &str) -> Ids {
    let topics =
        TOPICS.map(|name| json!({"Name": name, "NumPartitions": 2, "ReplicationFactor": 1}));
    let body = json!({"Topics": topics, "timeoutMs": 30_000});
    let made = connection.exchange(19, 7, &body, &Ids::new());
    let made = made["Topics"].as_array().expect("topics").clone();
    let ids = made.iter().map(|topic| {
        assert_eq!(topic["ErrorCode"], 0, "{topic}");
        let id = topic["TopicId"].as_str().expect("an id").parse();
        (
            topic["Name"].as_str().expect("a name").to_owned(),
            id.expect("a number"),
        )
    });
    let ids: Ids = ids.collect();
    let described = json!({"Topics": TOPICS.map(|name| json!({"Name": name}))});
    await_that(&format!("leaders at {bootstrap}"), || {
        let found = connection.exchange(3, 12, &described, &Ids::new());
        let topics = found["Topics"].as_array().expect("topics");
        topics.iter().all(|topic| {
            let partitions = topic["Partitions"].as_array().expect("partitions");
            partitions.len() == 2 && partitions.iter().all(|row| row["ErrorCode"] == 0)
        })
    });
    ids
}

/// The same cluster twice: with an authorizer, and with a proxy that has the same rules.
struct Pair {
    _labs: (Lab, Lab),
    proxy: TestProxy,
    direct: SocketAddr,
    /// Topic ids of both clusters.
    ids: (Ids, Ids),
}

impl Pair {
    fn start() -> Self {
        let (guarded, admin) = broker_with_authorizer();
        let open = lab(1);
        let mut admin = login(admin);
        let direct_ids = create_topics(&mut admin, &guarded.bootstrap());
        let address = open.bootstrap().parse().expect("an address");
        let open_ids = create_topics(&mut JsonConnection::connect(address), &open.bootstrap());
        let creations = ACLS.map(|(kind, pattern, name, operation, permission, _)| {
            json!({
                "ResourceType": kind, "ResourceName": name, "ResourcePatternType": pattern,
                "Principal": "User:ANONYMOUS", "Host": "*", "Operation": operation,
                "PermissionType": permission,
            })
        });
        let made = admin.exchange(30, 3, &json!({"Creations": creations}), &Ids::new());
        for row in made["Results"].as_array().expect("results") {
            assert_eq!(row["ErrorCode"], 0, "{made}");
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), listing()).expect("writes");
        let path = file.path().display();
        let proxy = proxy_to(
            &open.bootstrap(),
            &format!("[cluster.access]\nacls = \"{path}\"\n"),
        );
        await_that("the proxy to be ready", || proxy.get().is_ready());
        let direct = guarded.bootstrap().parse().expect("an address");
        Self {
            _labs: (guarded, open),
            proxy,
            direct,
            ids: (direct_ids, open_ids),
        }
    }

    /// Returns both responses to a request.
    fn both(&self, key: i16, version: i16, body: &Json) -> (Json, Json) {
        let direct = JsonConnection::connect(self.direct).exchange(key, version, body, &self.ids.0);
        let mut through = JsonConnection::connect(self.proxy.address);
        let through = through.exchange(key, version, body, &self.ids.1);
        (masked(direct), masked(through))
    }
}

/// Replaces what differs between two clusters.
fn masked(json: Json) -> Json {
    match json {
        Json::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                let value = match VOLATILE.contains(&&*name) {
                    true => json!("_"),
                    // The id of a topic that was created by a request.
                    false if name == "TopicId" && value.as_str().is_some_and(is_new_id) => {
                        json!("new")
                    }
                    false => masked(value),
                };
                (name, value)
            });
            Json::Object(fields.collect())
        }
        Json::Array(all) => Json::Array(all.into_iter().map(masked).collect()),
        other => other,
    }
}

fn is_new_id(id: &str) -> bool {
    id.parse::<u128>().is_ok_and(|id| id != 0)
}

const VOLATILE: [&str; 16] = [
    "ThrottleTimeMs",
    "Port",
    "ClusterId",
    "ErrorMessage",
    "ProducerId",
    "MemberId",
    "LogAppendTimeMs",
    "SessionId",
    "Leader",
    "ControllerId",
    "TotalBytes",
    "UsableBytes",
    "LogDir",
    "BrokerEpoch",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
];

/// Requests by API: allowed, denied, mixed and unknown names.
fn cases() -> Vec<(i16, Json)> {
    let mut cases = Vec::new();
    let all = [
        "allowed",
        "ok-1",
        "described",
        "read",
        "ok-not",
        "secret",
        "missing",
    ];
    let sets: [&[&str]; 5] = [
        &["allowed"],
        &["secret"],
        &["missing"],
        &["described", "read"],
        &all,
    ];
    let groups = ["g", "gd", "other"];
    for names in sets {
        let topics = |fields: &dyn Fn(&str) -> Json| {
            names.iter().map(|name| fields(name)).collect::<Vec<_>>()
        };
        let partitions = |field: &str| json!([{field: 0}, {field: 1}]);
        cases.push((
            0,
            json!({"Acks": 1, "TimeoutMs": 1000, "TopicData": topics(&|name| json!({
            "Name": name, "TopicId": name, "PartitionData": partitions("Index")}))}),
        ));
        cases.push((
            1,
            json!({"MaxWaitMs": 10, "ReplicaId": -1, "SessionEpoch": -1, "Topics":
            topics(&|name| json!({"Topic": name, "TopicId": name, "Partitions": [
                {"Partition": 0, "PartitionMaxBytes": 100}, {"Partition": 1}]}))}),
        ));
        cases.push((
            2,
            json!({"ReplicaId": -1, "Topics": topics(&|name| json!({
            "Name": name, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1,
            "CurrentLeaderEpoch": -1}]}))}),
        ));
        cases.push((
            3,
            json!({"AllowAutoTopicCreation": false, "IncludeTopicAuthorizedOperations": true,
            "IncludeClusterAuthorizedOperations": true,
            "Topics": topics(&|name| json!({"Name": name}))}),
        ));
        cases.push((75, json!({"Topics": topics(&|name| json!({"Name": name}))})));
        cases.push((
            20,
            json!({"TimeoutMs": 1000, "TopicNames":
            names.iter().filter(|name| ["secret", "missing", "described"].contains(
            name)).collect::<Vec<_>>(),
            "Topics": names.iter().filter(|name| ["secret", "missing", "described"].contains(name))
                .map(|name| json!({"Name": name})).collect::<Vec<_>>()}),
        ));
        cases.push((
            21,
            json!({"TimeoutMs": 1000, "Topics": topics(&|name| json!({
            "Name": name, "Partitions": [{"PartitionIndex": 0, "Offset": 0}]}))}),
        ));
        cases.push((
            23,
            json!({"ReplicaId": -1, "Topics": topics(&|name| json!({
            "Topic": name, "Partitions": [{"Partition": 0, "CurrentLeaderEpoch": -1,
            "LeaderEpoch": 0}]}))}),
        ));
        cases.push((
            37,
            json!({"ValidateOnly": true, "TimeoutMs": 1000, "Topics": topics(&|name| json!({
            "Name": name, "Count": 5, "Assignments": null}))}),
        ));
        cases.push((
            61,
            json!({"Topics": topics(&|name| json!({
            "Name": name, "PartitionIndexes": [0, 1]}))}),
        ));
        for key in [32, 33, 44] {
            let more = [
                json!({"ResourceType": 4, "ResourceName": "1"}),
                json!({"ResourceType": 32, "ResourceName": "other"}),
            ];
            let resources = topics(&|name| json!({"ResourceType": 2, "ResourceName": name, }));
            let resources: Vec<_> = resources.into_iter().chain(more).collect();
            let keys = json!({"ValidateOnly": true, "Resources": resources});
            let mut keys = keys;
            if key == 32 {
                keys.as_object_mut()
                    .expect("an object")
                    .remove("ValidateOnly");
                for resource in keys["Resources"].as_array_mut().expect("a list") {
                    resource["ConfigurationKeys"] = json!(["retention.ms"]);
                }
            }
            cases.push((key, keys));
        }
        for group in groups {
            cases.push((
                8,
                json!({"GroupId": group, "GenerationIdOrMemberEpoch": -1,
                "Topics": topics(&|name| json!({
                "Name": name, "TopicId": name, "Partitions": [{"PartitionIndex": 0,
                "CommittedOffset": 3}]}))}),
            ));
            let wanted = json!(topics(
                &|name| json!({"Name": name, "TopicId": name, "PartitionIndexes": [0]})
            ));
            let old = json!(topics(
                &|name| json!({"Name": name, "PartitionIndexes": [0]})
            ));
            cases.push((
                9,
                json!({"GroupId": group, "Topics": old, "Groups": [
                {"GroupId": group, "Topics": wanted}, {"GroupId": "none", "Topics": wanted}]}),
            ));
            cases.push((
                28,
                json!({"TransactionalId": "t", "GroupId": group, "ProducerId": 1,
                "Topics": topics(&|name| json!({
                "Name": name, "Partitions": [{"PartitionIndex": 0}]}))}),
            ));
            cases.push((
                47,
                json!({"GroupId": group, "Topics": topics(&|name| json!({
                "Name": name, "Partitions": [{"PartitionIndex": 0}]}))}),
            ));
            cases.push((
                68,
                json!({"GroupId": group, "MemberId": "m", "MemberEpoch": 5,
                "SubscribedTopicNames": names}),
            ));
            cases.push((
                76,
                json!({"GroupId": group, "MemberId": "m", "MemberEpoch": 5,
                "SubscribedTopicNames": names}),
            ));
        }
        for id in ["t", "td", "x"] {
            cases.push((
                24,
                json!({"V3AndBelowTransactionalId": id, "V3AndBelowProducerId": 1,
                "V3AndBelowTopics":
                topics(&|name| json!({"Name": name, "Partitions": [0]})),
                "Transactions": [{"TransactionalId": id, "Topics": topics(&|name| json!({
                "Name": name, "Partitions": [0]}))}]}),
            ));
        }
        cases.push((
            0,
            json!({"Acks": 1, "TransactionalId": "x", "TopicData": []}),
        ));
    }
    cases.push((
        3,
        json!({"Topics": null, "AllowAutoTopicCreation": false,
        "IncludeTopicAuthorizedOperations": true}),
    ));
    cases.push((75, json!({"Topics": []})));
    for group in groups {
        cases.push((
            9,
            json!({"GroupId": group, "Topics": null, "Groups": [{"GroupId": group,
            "Topics": null}]}),
        ));
        cases.push((
            11,
            json!({"GroupId": group, "MemberId": "m", "ProtocolType": "consumer",
            "SessionTimeoutMs": 1}),
        ));
        cases.push((12, json!({"GroupId": group, "MemberId": "m"})));
        cases.push((
            13,
            json!({"GroupId": group, "MemberId": "m", "Members": [{"MemberId": "m"}]}),
        ));
        cases.push((
            14,
            json!({"GroupId": group, "MemberId": "m", "ProtocolType": "x",
            "ProtocolName": "x"}),
        ));
    }
    cases.push((
        15,
        json!({"Groups": groups, "IncludeAuthorizedOperations": true}),
    ));
    cases.push((42, json!({"GroupsNames": groups})));
    cases.push((
        69,
        json!({"GroupIds": groups, "IncludeAuthorizedOperations": true}),
    ));
    cases.push((
        77,
        json!({"GroupIds": groups, "IncludeAuthorizedOperations": true}),
    ));
    cases.push((
        89,
        json!({"GroupIds": groups, "IncludeAuthorizedOperations": true}),
    ));
    cases.push((16, json!({})));
    for kind in [0, 1, 2] {
        for key in ["g", "gd", "other", "t", "td"] {
            cases.push((
                10,
                json!({"Key": key, "KeyType": kind, "CoordinatorKeys": [key, "other"]}),
            ));
        }
    }
    for id in [json!("t"), json!("td"), json!("x"), json!(null)] {
        cases.push((
            22,
            json!({"TransactionalId": id, "TransactionTimeoutMs": -5}),
        ));
        if !id.is_null() {
            cases.push((
                25,
                json!({"TransactionalId": id, "ProducerId": 1, "GroupId": "g"}),
            ));
            cases.push((26, json!({"TransactionalId": id, "ProducerId": 1})));
        }
    }
    cases.push((
        25,
        json!({"TransactionalId": "t", "ProducerId": 1, "GroupId": "gd"}),
    ));
    cases.push((65, json!({"TransactionalIds": ["t", "td", "x"]})));
    cases.push((66, json!({})));
    cases.push((60, json!({"IncludeClusterAuthorizedOperations": true})));
    cases.push((
        19,
        json!({"validateOnly": true, "timeoutMs": 1000, "Topics": [
        {"Name": "ok-new", "NumPartitions": 1, "ReplicationFactor": 1},
        {"Name": "new", "NumPartitions": 1, "ReplicationFactor": 1}]}),
    ));
    cases.push((
        27,
        json!({"Markers": [{"ProducerId": 1, "Topics": [{"Name": "allowed",
        "PartitionIndexes": [0]}]}]}),
    ));
    cases.push((
        29,
        json!({"ResourceTypeFilter": 1, "PatternTypeFilter": 1, "Operation": 1,
        "PermissionType": 1, "ResourceNameFilter": null, "PrincipalFilter": null,
        "HostFilter": null}),
    ));
    cases.push((
        30,
        json!({"Creations": [{"ResourceType": 2, "ResourceName": "x",
        "Principal": "User:x", "Host": "*", "Operation": 3, "PermissionType": 3}]}),
    ));
    cases.push((
        31,
        json!({"Filters": [{"ResourceTypeFilter": 2, "ResourceNameFilter": "x",
        "PrincipalFilter": null, "HostFilter": null, "Operation": 1, "PermissionType": 1}]}),
    ));
    cases.push((
        34,
        json!({"Dirs": [{"Path": "/x", "Topics": [{"Name": "allowed", "Partitions": [0]}]}]}),
    ));
    cases.push((35, json!({"Topics": null})));
    cases.push((
        43,
        json!({"TopicPartitions": [{"Topic": "allowed", "Partitions": [0, 1]}]}),
    ));
    cases.push((
        45,
        json!({"Topics": [{"Name": "allowed", "Partitions": [{"PartitionIndex": 0}]}]}),
    ));
    cases.push((46, json!({"Topics": null})));
    cases.push((48, json!({"Components": []})));
    cases.push((
        49,
        json!({"ValidateOnly": true, "Entries": [{"Entity": [{"EntityType": "user",
        "EntityName": "x"}]}]}),
    ));
    cases.push((50, json!({"Users": []})));
    cases.push((
        51,
        json!({"Deletions": [{"Name": "u", "Mechanism": 1}, {"Name": "v", "Mechanism": 1}]}),
    ));
    cases.push((55, json!({"Topics": []})));
    cases.push((57, json!({"FeatureUpdates": [], "ValidateOnly": true})));
    cases.push((64, json!({"BrokerId": 999})));
    cases.push((74, json!({})));
    cases.push((80, json!({"VoterId": 999, "Listeners": []})));
    cases.push((81, json!({"VoterId": 999})));
    for group in groups {
        cases.push((
            90,
            json!({"Groups": [{"GroupId": group, "Topics": [{"TopicName": "allowed",
            "Partitions": [0]}, {"TopicName": "secret", "Partitions": [0]}]}]}),
        ));
        cases.push((
            91,
            json!({"GroupId": group, "Topics": [{"TopicName": "secret",
            "Partitions": [{"PartitionIndex": 0}]}]}),
        ));
        cases.push((
            92,
            json!({"GroupId": group, "Topics": [{"TopicName": "allowed"}, {
            "TopicName": "secret"}]}),
        ));
    }
    cases
}

/// Produce is offered in versions that brokers reject. Brokers have an error of the coordinator for
/// all partitions of OffsetFetch 1, even denied ones. AlterShareGroupOffsets has the ids of denied
/// topics.
const EXCEPTIONS: [(i16, i16); 5] = [(0, 0), (0, 1), (0, 2), (9, 1), (91, 0)];

#[test]
fn responses_match_broker_with_same_acls() {
    let pair = Pair::start();
    let offered =
        JsonConnection::connect(pair.proxy.address).exchange(18, 0, &json!({}), &Ids::new());
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (key, body) in cases() {
        let row = offered["ApiKeys"]
            .as_array()
            .expect("rows")
            .iter()
            .find(|row| row["ApiKey"] == key);
        let Some(row) = row else {
            wrong.push(format!("API {key} is not offered"));
            continue;
        };
        let versions = [&row["MinVersion"], &row["MaxVersion"]]
            .map(|one| one.as_i64().expect("a number") as i16);
        for version in versions[0]..=versions[1] {
            if EXCEPTIONS.contains(&(key, version)) || (key == 24 && version > 3) {
                continue;
            }
            compared += 1;
            let (mut direct, mut through) = pair.both(key, version, &body);
            // New brokers are changing for a while.
            let until = Instant::now()
                + std::time::Duration::from_millis(if compared < 40 { 5_000 } else { 300 });
            while direct != through && Instant::now() < until {
                (direct, through) = pair.both(key, version, &body);
            }
            if direct != through {
                wrong.push(format!(
                    "API {key} version {version}\n  request {body}\n  direct  {direct}\n  \
                     through {through}"
                ));
            }
        }
    }
    assert!(compared > 500, "only {compared} responses compared");
    assert!(
        wrong.is_empty(),
        "{} of {compared}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
