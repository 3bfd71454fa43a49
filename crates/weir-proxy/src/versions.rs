//! The supported APIs and versions: those in whose responses the proxy can replace all addresses.
//!
//! Newer versions are not supported, because they may contain addresses in new places.

use weir_wire::message;

/// Produce. With acks=0 there is no response.
pub(crate) const PRODUCE: i16 = 0;
/// Fetch. Its responses carry records.
pub(crate) const FETCH: i16 = 1;
/// Metadata. Its responses begin with the brokers.
pub(crate) const METADATA: i16 = 3;
pub(crate) const FIND_COORDINATOR: i16 = 10;
pub(crate) const SASL_HANDSHAKE: i16 = 17;
pub(crate) const SASL_AUTHENTICATE: i16 = 36;
/// ApiVersions, the first request of most connections.
pub(crate) const API_VERSIONS: i16 = 18;
pub(crate) const DESCRIBE_QUORUM: i16 = 55;
pub(crate) const DESCRIBE_CLUSTER: i16 = 60;
pub(crate) const SHARE_FETCH: i16 = 78;
pub(crate) const SHARE_ACKNOWLEDGE: i16 = 79;

/// API key, name, lowest and highest supported version. These are all versions of Apache Kafka 4.4
/// on client listeners, except those of the APIs between brokers.
const SUPPORTED: [(i16, &str, i16, i16); 75] = [
    (0, "Produce", 0, 13),
    (1, "Fetch", 0, 18),
    (2, "ListOffsets", 0, 11),
    (3, "Metadata", 0, 13),
    (8, "OffsetCommit", 0, 10),
    (9, "OffsetFetch", 0, 10),
    (10, "FindCoordinator", 0, 6),
    (11, "JoinGroup", 0, 9),
    (12, "Heartbeat", 0, 4),
    (13, "LeaveGroup", 0, 5),
    (14, "SyncGroup", 0, 5),
    (15, "DescribeGroups", 0, 6),
    (16, "ListGroups", 0, 5),
    (17, "SaslHandshake", 0, 1),
    (18, "ApiVersions", 0, 5),
    (19, "CreateTopics", 0, 7),
    (20, "DeleteTopics", 0, 6),
    (21, "DeleteRecords", 0, 2),
    (22, "InitProducerId", 0, 6),
    (23, "OffsetForLeaderEpoch", 0, 4),
    (24, "AddPartitionsToTxn", 0, 5),
    (25, "AddOffsetsToTxn", 0, 4),
    (26, "EndTxn", 0, 5),
    (27, "WriteTxnMarkers", 0, 2),
    (28, "TxnOffsetCommit", 0, 6),
    (29, "DescribeAcls", 0, 3),
    (30, "CreateAcls", 0, 3),
    (31, "DeleteAcls", 0, 3),
    (32, "DescribeConfigs", 0, 4),
    (33, "AlterConfigs", 0, 2),
    (34, "AlterReplicaLogDirs", 0, 2),
    (35, "DescribeLogDirs", 0, 5),
    (36, "SaslAuthenticate", 0, 2),
    (37, "CreatePartitions", 0, 3),
    (38, "CreateDelegationToken", 0, 3),
    (39, "RenewDelegationToken", 0, 2),
    (40, "ExpireDelegationToken", 0, 2),
    (41, "DescribeDelegationToken", 0, 3),
    (42, "DeleteGroups", 0, 3),
    (43, "ElectLeaders", 0, 2),
    (44, "IncrementalAlterConfigs", 0, 1),
    (45, "AlterPartitionReassignments", 0, 1),
    (46, "ListPartitionReassignments", 0, 0),
    (47, "OffsetDelete", 0, 0),
    (48, "DescribeClientQuotas", 0, 1),
    (49, "AlterClientQuotas", 0, 1),
    (50, "DescribeUserScramCredentials", 0, 0),
    (51, "AlterUserScramCredentials", 0, 0),
    (55, "DescribeQuorum", 0, 2),
    (57, "UpdateFeatures", 0, 2),
    (60, "DescribeCluster", 0, 2),
    (61, "DescribeProducers", 0, 0),
    (64, "UnregisterBroker", 0, 0),
    (65, "DescribeTransactions", 0, 0),
    (66, "ListTransactions", 0, 2),
    (68, "ConsumerGroupHeartbeat", 0, 1),
    (69, "ConsumerGroupDescribe", 0, 1),
    (71, "GetTelemetrySubscriptions", 0, 0),
    (72, "PushTelemetry", 0, 0),
    (74, "ListConfigResources", 0, 1),
    (75, "DescribeTopicPartitions", 0, 0),
    (76, "ShareGroupHeartbeat", 1, 1),
    (77, "ShareGroupDescribe", 1, 1),
    (78, "ShareFetch", 1, 2),
    (79, "ShareAcknowledge", 1, 2),
    (80, "AddRaftVoter", 0, 1),
    (81, "RemoveRaftVoter", 0, 0),
    (88, "StreamsGroupHeartbeat", 0, 1),
    (89, "StreamsGroupDescribe", 0, 1),
    (90, "DescribeShareGroupOffsets", 0, 1),
    (91, "AlterShareGroupOffsets", 0, 0),
    (92, "DeleteShareGroupOffsets", 0, 0),
    (93, "StreamsGroupTopologyDescriptionUpdate", 0, 0),
    (94, "UnregisterController", 0, 0),
    (KEY_END, "", 0, -1),
];

/// One more than the highest supported API key.
pub(crate) const KEY_END: i16 = 95;

/// Returns `true` for delegation tokens and SCRAM users, which are the brokers'. Clients that log
/// in at the proxy cannot use them.
pub(crate) fn is_of_broker_logins(key: i16) -> bool {
    matches!(key, 38..=41 | 50 | 51)
}

/// Returns `true` for APIs that change topics, ACLs, configurations, partitions, delegation tokens,
/// groups, quotas, SCRAM users and features.
pub(crate) fn is_write(key: i16) -> bool {
    let kinds = [
        19, 20, 30, 31, 33, 34, 37, 38, 39, 40, 42, 43, 44, 45, 47, 49, 51, 57,
    ];
    kinds.contains(&key)
}

pub(crate) fn name(key: i16) -> &'static str {
    let found = SUPPORTED.iter().find(|row| row.0 == key && key != KEY_END);
    found.map_or("unknown", |row| row.1)
}

/// The API versions that clients of one virtual cluster may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SupportedVersions {
    /// Lowest and highest version by API key; unsupported if the second is lower.
    by_key: [(i16, i16); KEY_END as usize],
}

impl SupportedVersions {
    /// Creates the table of all supported versions, with the highest version limited to
    /// `version_max`; -1 hides an API.
    pub(crate) fn new(version_max: impl Fn(i16) -> Option<i16>) -> Self {
        let mut by_key = [(0, -1); KEY_END as usize];
        for (key, _, min, max) in SUPPORTED {
            if let Some(range) = by_key.get_mut(key as usize) {
                *range = (min, version_max(key).map_or(max, |limit| limit.min(max)));
            }
        }
        Self { by_key }
    }

    /// Raises the lowest versions.
    pub(crate) fn raise(&mut self, version_min: impl Fn(i16) -> i16) {
        for (key, range) in (0..).zip(&mut self.by_key) {
            range.0 = range.0.max(version_min(key));
        }
    }

    /// Returns the lowest and highest supported version of an API, or `None` if it is not
    /// supported.
    pub(crate) fn range(&self, key: i16) -> Option<(i16, i16)> {
        let range = *self.by_key.get(usize::try_from(key).ok()?)?;
        (range.0 <= range.1).then_some(range)
    }

    /// Returns `true` if this version of the API is supported.
    pub(crate) fn has(&self, key: i16, version: i16) -> bool {
        self.range(key)
            .is_some_and(|(min, max)| (min..=max).contains(&version))
    }

    /// Returns `true` if all versions of `other` are supported.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut ranges = self.by_key.iter().zip(&other.by_key);
        ranges.all(|(own, (min, max))| min > max || (own.0 <= *min && *max <= own.1))
    }

    /// Returns the versions that both the proxy and a broker with versions `min` to `max` support.
    pub(crate) fn common(&self, key: i16, min: i16, max: i16) -> Option<(i16, i16)> {
        let ours = self.range(key)?;
        let common = (ours.0.max(min), ours.1.min(max));
        (common.0 <= common.1).then_some(common)
    }
}

/// Returns `true` if requests of this version have the flexible header.
pub(crate) fn flexible(key: i16, version: i16) -> bool {
    let first = match key {
        PRODUCE | METADATA => 9,
        FETCH => 12,
        FIND_COORDINATOR | API_VERSIONS => 3,
        DESCRIBE_CLUSTER | DESCRIBE_QUORUM | SHARE_FETCH | SHARE_ACKNOWLEDGE => 0,
        _ => return message::api(key).is_some_and(|api| api.is_flexible(version)),
    };
    version >= first
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::header::request_header_version;

    #[test]
    fn supported_apis_are_sorted_and_unique() {
        assert!(SUPPORTED.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(name(3), "Metadata");
        assert_eq!(name(4), "unknown");
        assert_eq!(name(KEY_END), "unknown");
    }

    /// Reads "0-13"; an empty cell is an API that a broker does not offer.
    fn range(cell: &str) -> Option<(i16, i16)> {
        let (min, max) = cell.split_once('-')?;
        Some((
            min.parse().expect("a version"),
            max.parse().expect("a version"),
        ))
    }

    /// The columns of the releases are responses of their brokers to ApiVersions.
    #[test]
    fn broker_versions_are_supported_or_have_reason() {
        let supported = SupportedVersions::new(|_| None);
        let table = include_str!("../../../docs/proxy-apis.md");
        let mut documented = Vec::new();
        for line in table.lines() {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let ["", key, api, offered @ .., own, note, ""] = cells.as_slice() else {
                continue;
            };
            let Ok(key) = key.parse::<i16>() else {
                continue;
            };
            assert_eq!(offered.len(), 5, "3.9 to 4.3: {line}");
            documented.extend(range(own).map(|_| key));
            assert_eq!(supported.range(key), range(own), "{line}");
            if *own == "no" {
                assert!(!note.is_empty(), "a reason: {line}");
                continue;
            }
            assert_eq!(name(key), *api);
            for (min, max) in offered.iter().filter_map(|cell| range(cell)) {
                for version in min..=max {
                    assert!(supported.has(key, version), "version {version}: {line}");
                }
            }
        }
        let keys: Vec<_> = SUPPORTED
            .iter()
            .map(|row| row.0)
            .filter(|key| *key != KEY_END)
            .collect();
        assert_eq!(documented, keys);
    }

    #[test]
    fn versions_with_unknown_addresses_are_not_supported() {
        let supported = SupportedVersions::new(|_| None);
        assert!(supported.has(FETCH, 18) && !supported.has(FETCH, 19));
        assert!(supported.has(DESCRIBE_QUORUM, 2) && !supported.has(DESCRIBE_QUORUM, 3));
        assert!(!supported.has(58, 0), "Envelope is between brokers");
        assert!(!supported.has(-1, 0) && !supported.has(i16::MAX, 0) && !supported.has(KEY_END, 0));
    }

    #[test]
    fn version_limits_lower_and_hide_apis() {
        let supported = SupportedVersions::new(|key| match key {
            FETCH => Some(12),
            SHARE_FETCH => Some(-1),
            METADATA => Some(99),
            _ => None,
        });
        assert_eq!(supported.range(FETCH), Some((0, 12)));
        assert_eq!(supported.range(SHARE_FETCH), None);
        assert_eq!(supported.range(METADATA), Some((0, 13)));
        assert_eq!(supported.common(FETCH, 4, 18), Some((4, 12)));
        assert_eq!(supported.common(FETCH, 13, 18), None);
        assert_eq!(supported.common(SHARE_FETCH, 1, 2), None);
        let all = SupportedVersions::new(|_| None);
        assert!(all.covers(&supported) && supported.covers(&supported));
        assert!(!supported.covers(&all));
    }

    #[test]
    fn flexible_versions_match_the_protocol() {
        for key in [PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS] {
            for version in 3..13 {
                let header = request_header_version(key, version).expect("known");
                assert_eq!(flexible(key, version), header == 2, "{key} {version}");
            }
        }
    }
}
