//! Requests of every API and version have the same responses from the broker and through the proxy,
//! apart from addresses.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, Request, StrBytes};
use uuid::Uuid;
use weir_wire::header::{request_header_version, response_header_version};

use super::support::*;

/// APIs that brokers offer and the proxy does not: between share coordinators and brokers.
const BETWEEN_BROKERS: [i16; 5] = [83, 84, 85, 86, 87];

pub(crate) fn broker_address() -> SocketAddr {
    broker().parse().expect("an address")
}

pub(crate) fn api_versions(address: SocketAddr, version: i16) -> ApiVersionsResponse {
    let request = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str(if version < 3 {
            ""
        } else {
            "test"
        }))
        .with_client_software_version(StrBytes::from_static_str(if version < 3 {
            ""
        } else {
            "1"
        }));
    Raw::connect(address).exchange(version, &request)
}

/// Returns `true` if a broker has an API.
pub(crate) fn offers(response: &ApiVersionsResponse, key: i16) -> bool {
    response.api_keys.iter().any(|row| row.api_key == key)
}

#[test]
fn proxy_supports_versions_of_broker() {
    let proxy = proxy("");
    for version in 0..=4 {
        let mut wanted = api_versions(broker_address(), version);
        let count = wanted.api_keys.len();
        // Brokers before 4.0 have no share groups, and none of these APIs.
        let between = match offers(&wanted, ShareFetchRequest::KEY) {
            true => BETWEEN_BROKERS.len(),
            false => 0,
        };
        wanted
            .api_keys
            .retain(|row| !BETWEEN_BROKERS.contains(&row.api_key));
        assert_eq!(wanted.api_keys.len(), count - between);
        let offered = api_versions(proxy.address, version);
        // The epoch grows with the cluster's metadata, which other tests change meanwhile.
        let after = api_versions(broker_address(), version).finalized_features_epoch;
        let epoch = offered.finalized_features_epoch;
        let allowed = wanted.finalized_features_epoch..=after;
        assert!(
            allowed.contains(&epoch),
            "version {version}: epoch {epoch}, not within {allowed:?}"
        );
        wanted.finalized_features_epoch = epoch;
        // Among them the features, which depend on these versions.
        assert_eq!(offered, wanted, "version {version}");
    }
}

/// Compares the documented versions of the broker's release with those of the broker.
#[test]
fn documented_versions_match_broker() {
    let table = include_str!("../../../../docs/proxy-apis.md");
    let documented = |column: usize| -> Vec<_> {
        let versions = |line: &str| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let key: i16 = cells.get(1)?.parse().ok()?;
            let (min, max) = cells.get(column)?.split_once('-')?;
            Some((key, min.parse::<i16>().ok()?, max.parse::<i16>().ok()?))
        };
        table.lines().filter_map(versions).collect()
    };
    let offered = api_versions(broker_address(), 4);
    let mut offered: Vec<_> = offered
        .api_keys
        .iter()
        .map(|row| (row.api_key, row.min_version, row.max_version))
        .collect();
    offered.sort_unstable();
    // Releases from 3.9 to 4.3.
    if !(3..7).any(|column| documented(column) == offered) {
        assert_eq!(documented(7), offered);
    }
}

/// Encodes the request that the codec creates by default. Versions that the codec does not know yet
/// get the body of its latest one, which differs only in what default requests do not contain.
fn default_body<Q: Request + Default>(version: i16) -> Vec<u8> {
    let version = version.clamp(Q::VERSIONS.min, Q::VERSIONS.max);
    encoded(&Q::default(), version)
}

fn encoded(message: &impl Encodable, version: i16) -> Vec<u8> {
    let mut body = BytesMut::new();
    message.encode(&mut body, version).expect("encodes");
    body.to_vec()
}

type Body = fn(i16) -> Vec<u8>;

macro_rules! bodies {
    ($($request:ident)*) => {
        BTreeMap::from([$(($request::KEY, default_body::<$request> as Body)),*])
    };
}

/// Returns the bodies of requests by API key.
fn bodies() -> BTreeMap<i16, Body> {
    let mut bodies = bodies! {
        ProduceRequest FetchRequest ListOffsetsRequest MetadataRequest OffsetCommitRequest
        OffsetFetchRequest FindCoordinatorRequest JoinGroupRequest HeartbeatRequest
        LeaveGroupRequest SyncGroupRequest DescribeGroupsRequest ListGroupsRequest
        SaslHandshakeRequest CreateTopicsRequest DeleteTopicsRequest
        DeleteRecordsRequest InitProducerIdRequest OffsetForLeaderEpochRequest
        AddPartitionsToTxnRequest AddOffsetsToTxnRequest EndTxnRequest WriteTxnMarkersRequest
        TxnOffsetCommitRequest DescribeAclsRequest CreateAclsRequest DeleteAclsRequest
        DescribeConfigsRequest AlterConfigsRequest AlterReplicaLogDirsRequest
        DescribeLogDirsRequest SaslAuthenticateRequest CreatePartitionsRequest
        CreateDelegationTokenRequest RenewDelegationTokenRequest ExpireDelegationTokenRequest
        DescribeDelegationTokenRequest DeleteGroupsRequest ElectLeadersRequest
        IncrementalAlterConfigsRequest AlterPartitionReassignmentsRequest
        ListPartitionReassignmentsRequest OffsetDeleteRequest DescribeClientQuotasRequest
        AlterClientQuotasRequest DescribeUserScramCredentialsRequest
        AlterUserScramCredentialsRequest DescribeQuorumRequest UpdateFeaturesRequest
        DescribeClusterRequest DescribeProducersRequest DescribeTransactionsRequest
        ListTransactionsRequest ConsumerGroupHeartbeatRequest ConsumerGroupDescribeRequest
        ListConfigResourcesRequest DescribeTopicPartitionsRequest ShareGroupHeartbeatRequest
        ShareGroupDescribeRequest ShareFetchRequest ShareAcknowledgeRequest AddRaftVoterRequest
        RemoveRaftVoterRequest DescribeShareGroupOffsetsRequest AlterShareGroupOffsetsRequest
        DeleteShareGroupOffsetsRequest
    };
    // By default, no response is requested.
    bodies.insert(ProduceRequest::KEY, |version| {
        encoded(&ProduceRequest::default().with_acks(1), version.max(3))
    });
    // Brokers have no response to a request without transactions.
    bodies.insert(AddPartitionsToTxnRequest::KEY, |version| {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(StrBytes::from_static_str("none")))
            .with_partitions(vec![0]);
        let id = TransactionalId(StrBytes::from_static_str("t"));
        let transaction = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(id)
            .with_topics(vec![topic]);
        let message = AddPartitionsToTxnRequest::default();
        let message = match version {
            ..4 => message,
            _ => message.with_transactions(vec![transaction]),
        };
        encoded(&message, version)
    });
    // By default, the broker with id 0 would be removed.
    bodies.insert(UnregisterBrokerRequest::KEY, |version| {
        encoded(
            &UnregisterBrokerRequest::default().with_broker_id(BrokerId(999)),
            version,
        )
    });
    bodies.insert(DescribeAclsRequest::KEY, |version| {
        let message = DescribeAclsRequest::default()
            .with_resource_type_filter(ANY)
            .with_pattern_type_filter(ANY)
            .with_operation(ANY)
            .with_permission_type(ANY);
        encoded(&message, version)
    });
    // Fields that the codec does not know yet, in front of the last ones.
    bodies.insert(ShareFetchRequest::KEY, |version| {
        with_zeros::<ShareFetchRequest>(version, 2, 3)
    });
    bodies.insert(ShareAcknowledgeRequest::KEY, |version| {
        with_zeros::<ShareAcknowledgeRequest>(version, 1, 2)
    });
    bodies.insert(AddRaftVoterRequest::KEY, |version| {
        with_zeros::<AddRaftVoterRequest>(version, 1, 1)
    });
    // The codec does not know groups of Kafka Streams. A heartbeat without group, topology and
    // tasks; a description of the group "g".
    bodies.insert(88, |_| {
        let mut body = vec![1, 1];
        body.extend([0; 8]);
        body.extend([0, 0]);
        body.extend([0xff; 5]);
        body.extend([0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0]);
        body
    });
    bodies.insert(89, |_| vec![2, 2, b'g', 0, 0]);
    bodies
}

/// Inserts `count` zeros before the last `before` bytes in versions that the codec does not know.
fn with_zeros<Q: Request + Default>(version: i16, count: usize, before: usize) -> Vec<u8> {
    let mut body = default_body::<Q>(version);
    if version > Q::VERSIONS.max {
        let at = body.len() - before;
        body.splice(at..at, vec![0; count]);
    }
    body
}

/// The filter of ACLs that matches all.
const ANY: i8 = 1;

/// Returns the body of the response to a request, or `None` if the peer closes the connection.
fn response_to(address: SocketAddr, key: i16, version: i16, body: &[u8]) -> Option<Vec<u8>> {
    let header_version = match key {
        88 | 89 => 2,
        _ => request_header_version(key, version).expect("known"),
    };
    let header = RequestHeader::default()
        .with_request_api_key(key)
        .with_request_api_version(version)
        .with_correlation_id(9);
    let head = encoded(&header, header_version);
    let size = (head.len() + body.len()) as i32;
    let mut stream = TcpStream::connect(address).expect("connects");
    stream
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a timeout");
    stream
        .write_all(&[&size.to_be_bytes()[..], &head, body].concat())
        .expect("sends");
    let mut size = [0; 4];
    if let Err(error) = stream.read_exact(&mut size) {
        let is_timeout = error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!is_timeout, "no response to API {key} version {version}");
        return None;
    }
    let mut frame = vec![0; i32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).expect("a frame");
    assert_eq!(frame[..4], 9_i32.to_be_bytes());
    Some(frame.split_off(4))
}

/// Returns a response as text, without fields that differ between two equal requests.
fn as_text(key: i16, version: i16, response: &[u8]) -> String {
    let mut bytes = Bytes::copy_from_slice(response);
    if response_header_version(key, version).expect("known") > 0 {
        // No tagged fields.
        bytes = bytes.slice(1..);
    }
    let api = ApiKey::try_from(key).expect("known");
    let Ok(decoded) = ResponseKind::decode(api, &mut bytes, version) else {
        // A version that the codec does not know yet.
        return format!("{response:?}");
    };
    let mut text = format!("{decoded:?}");
    for field in VOLATILE {
        let name = format!("{field}: ");
        let mut at = 0;
        while let Some(found) = text[at..].find(&name) {
            let start = at + found + name.len();
            let end = text[start..].find([',', '}']).expect("an end") + start;
            text.replace_range(start..end, "_");
            at = start;
        }
    }
    text
}

/// Brokers name any broker as controller.
const VOLATILE: [&str; 10] = [
    "controller_id",
    "producer_id",
    "member_id",
    "size",
    "usable_bytes",
    "log_end_offset",
    "high_watermark",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "total_bytes",
];

/// A cluster, a proxy in front of it, and the same broker directly and through the proxy.
struct Both {
    lab: weir_lab::Lab,
    proxy: TestProxy,
    direct: SocketAddr,
    through: SocketAddr,
}

impl Both {
    fn start(brokers: u8) -> Self {
        let lab = lab(brokers);
        let bootstrap = lab.bootstrap();
        let first = bootstrap.split(',').next().expect("a broker");
        let proxy = proxy_to(first, "");
        await_that("the proxy to be ready", || proxy.get().is_ready());
        Self {
            direct: first.parse().expect("an address"),
            through: proxy.address,
            lab,
            proxy,
        }
    }

    /// Replaces the ports of brokers, and those of the proxy, by the same text.
    fn without_ports(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for row in self.proxy.get().brokers("default") {
            for address in [&row.upstream, &row.advertised] {
                let (_, port) = address.rsplit_once(':').expect("a port");
                text = text.replace(&format!("port: {port},"), &format!("port of {},", row.id));
            }
        }
        text
    }

    /// Compares the responses to a request, again if the cluster is changing. Returns `false` if
    /// the broker closes the connection.
    fn compare(&self, key: i16, version: i16, body: &[u8]) -> bool {
        let until = Instant::now() + CHANGE_TIMEOUT;
        loop {
            let direct = response_to(self.direct, key, version, body);
            let through = response_to(self.through, key, version, body);
            if direct == through {
                return direct.is_some();
            }
            let (Some(direct), Some(through)) = (&direct, &through) else {
                panic!("API {key} version {version}: {direct:?}, through the proxy {through:?}");
            };
            let direct = self.without_ports(&as_text(key, version, direct));
            let through = self.without_ports(&as_text(key, version, through));
            let direct = match key {
                // Listeners of controllers are not shown through the proxy.
                DESCRIBE_QUORUM => without_listeners(direct),
                _ => direct,
            };
            if direct == through {
                return true;
            }
            let what = format!("API {key} version {version}");
            assert!(
                Instant::now() < until,
                "{what}: {direct}\nthrough the proxy: {through}"
            );
        }
    }
}

/// Time in which a new cluster stops changing.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(20);

fn without_listeners(mut text: String) -> String {
    while let Some(start) = text.find("listeners: [Listener") {
        let end = text[start..].find(']').expect("an end") + start;
        text.replace_range(start..=end, "listeners: []");
    }
    text
}

const DESCRIBE_QUORUM: i16 = 55;
/// Versions that brokers offer but close the connection for: old versions of Produce, which they
/// list for a library that would not work otherwise.
const CLOSED: [(i16, i16); 3] = [(0, 0), (0, 1), (0, 2)];

#[test]
fn every_api_and_version_has_the_same_response() {
    let both = Both::start(1);
    let bodies = bodies();
    let mut closed = Vec::new();
    let mut count = 0;
    for row in api_versions(both.direct, 4).api_keys {
        // The versions of ApiVersions differ on purpose; their test is above.
        if BETWEEN_BROKERS.contains(&row.api_key) || row.api_key == ApiVersionsRequest::KEY {
            continue;
        }
        let body = bodies.get(&row.api_key);
        let body = body.unwrap_or_else(|| panic!("no request for API {}", row.api_key));
        for version in row.min_version..=row.max_version {
            count += 1;
            if !both.compare(row.api_key, version, &body(version)) {
                closed.push((row.api_key, version));
            }
        }
    }
    assert_eq!(closed, CLOSED);
    assert!(count > 230, "{count}");
}

#[test]
fn topics_groups_and_leaders_have_the_same_responses() {
    let both = Both::start(2);
    let name = topic(&both.lab.bootstrap(), "equal", 2, 1);
    produce(
        &client_config(&both.lab.bootstrap()),
        &name,
        &numbered("v", 20),
    );
    let topic_name = TopicName(StrBytes::from_string(name.clone()));
    let metadata = |version: i16| {
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name.clone()));
        encoded(
            &MetadataRequest::default().with_topics(Some(vec![topic])),
            version,
        )
    };
    let found: MetadataResponse = Raw::connect(both.direct).exchange(
        12,
        &MetadataRequest::default().with_topics(Some(vec![
            MetadataRequestTopic::default().with_name(Some(topic_name.clone())),
        ])),
    );
    let id = found.topics[0].topic_id;
    let through: MetadataResponse =
        Raw::connect(both.through).exchange(12, &MetadataRequest::default().with_topics(None));
    assert_eq!(through.brokers.len(), 2);

    let offered = api_versions(both.direct, 4).api_keys;
    let compare = |key: i16, body: &dyn Fn(i16) -> Vec<u8>| {
        let row = offered
            .iter()
            .find(|row| row.api_key == key)
            .expect("offered");
        for version in row.min_version..=row.max_version {
            assert!(
                both.compare(key, version, &body(version)),
                "API {key} version {version}"
            );
        }
    };
    compare(MetadataRequest::KEY, &metadata);
    compare(FetchRequest::KEY, &|version| fetch(&name, id, version));
    compare(FindCoordinatorRequest::KEY, &|version| {
        let group = StrBytes::from_static_str("no group");
        let message = FindCoordinatorRequest::default();
        let message = match version {
            ..4 => message.with_key(group),
            _ => message.with_coordinator_keys(vec![group]),
        };
        encoded(&message, version)
    });
    compare(ListOffsetsRequest::KEY, &|version| {
        let partition = ListOffsetsPartition::default().with_timestamp(-1);
        let topic = ListOffsetsTopic::default()
            .with_name(topic_name.clone())
            .with_partitions(vec![partition.clone(), partition.with_partition_index(1)]);
        let message = ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![topic]);
        // Version 11 adds a meaning of a timestamp only.
        encoded(&message, version.min(10))
    });
    compare(DescribeClusterRequest::KEY, &|version| {
        encoded(&DescribeClusterRequest::default(), version)
    });
    leader_hints(&both, &name, id);
    let hidden: DescribeClusterResponse = Raw::connect(both.through)
        .exchange(1, &DescribeClusterRequest::default().with_endpoint_type(2));
    assert!(hidden.brokers.is_empty());
}

/// Returns a Fetch request for both partitions of a topic.
fn fetch(name: &str, id: Uuid, version: i16) -> Vec<u8> {
    let partition = |index| {
        FetchPartition::default()
            .with_partition(index)
            .with_partition_max_bytes(1 << 20)
    };
    let topic = match version {
        ..13 => FetchTopic::default().with_topic(TopicName(StrBytes::from_string(name.to_owned()))),
        _ => FetchTopic::default().with_topic_id(id),
    };
    let message = FetchRequest::default()
        .with_max_wait_ms(100)
        .with_max_bytes(1 << 24)
        .with_session_epoch(-1)
        .with_topics(vec![
            topic.with_partitions(vec![partition(0), partition(1)]),
        ]);
    encoded(&message, version)
}

/// Each partition has one replica, so one of two brokers is not its leader, and names the other.
fn leader_hints(both: &Both, name: &str, id: Uuid) {
    let advertised: Vec<_> = both.proxy.get().brokers("default");
    for version in 16..=18 {
        let mut frame = response_to(both.through, 1, version, &fetch(name, id, version));
        let mut bytes = Bytes::from(frame.take().expect("a response")).slice(1..);
        let response = ResponseKind::decode(ApiKey::Fetch, &mut bytes, version).expect("decodes");
        let ResponseKind::Fetch(response) = response else {
            panic!("another API");
        };
        let moved = response.responses[0].partitions.iter();
        assert!(moved.filter(|row| row.error_code == 6).count() > 0);
        assert_eq!(response.node_endpoints.len(), 1);
        let endpoint = &response.node_endpoints[0];
        let seen = format!("{}:{}", endpoint.host.as_str(), endpoint.port);
        let row = advertised.iter().find(|row| row.id == endpoint.node_id.0);
        assert_eq!(row.expect("a broker").advertised, seen);
    }
}
