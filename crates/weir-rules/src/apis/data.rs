//! APIs of producers and consumers.

use weir_identity::acl::{AclOperation, ResourceType};

use crate::table::{
    ApiAccess, ErrorElement, ItemCheck, NestedErrorElement, OperationBits, ShownItems,
    TOPIC_DENIED, WholeCheck,
};

/// Produce, Fetch, ListOffsets, Metadata, InitProducerId, OffsetForLeaderEpoch, the requests of
/// transactions, and those that need no right: SaslHandshake, ApiVersions, SaslAuthenticate,
/// GetTelemetrySubscriptions, PushTelemetry.
pub(super) const APIS: &[ApiAccess] = &[
    ApiAccess {
        whole: &[WholeCheck::transaction()],
        ..ApiAccess::each(0, &PRODUCE)
    },
    ApiAccess::each(1, &FETCH),
    ApiAccess::each(2, &LIST_OFFSETS),
    ApiAccess {
        bits: &[
            OperationBits {
                array: "Topics",
                name: "Name",
                field: "TopicAuthorizedOperations",
                kind: ResourceType::Topic,
            },
            CLUSTER_BITS,
        ],
        ..ApiAccess::each(3, &METADATA)
    },
    ApiAccess::open(17),
    ApiAccess::open(18),
    ApiAccess::of(22, &[WholeCheck::transaction()]),
    ApiAccess::each(23, &LEADER_EPOCHS),
    ApiAccess::each(24, &ADD_PARTITIONS),
    ApiAccess::of(
        25,
        &[
            WholeCheck::transaction(),
            WholeCheck::group(&[AclOperation::Read]),
        ],
    ),
    ApiAccess::of(26, &[WholeCheck::transaction()]),
    ApiAccess {
        whole: &[
            WholeCheck::transaction(),
            WholeCheck::group(&[AclOperation::Read]),
        ],
        ..ApiAccess::each(28, &OFFSET_COMMIT)
    },
    ApiAccess::open(36),
    ApiAccess {
        bits: &[CLUSTER_BITS],
        ..ApiAccess::open(60)
    },
    ApiAccess {
        items: Some(&DESCRIBE_TRANSACTIONS),
        ..ApiAccess::open(65)
    },
    ApiAccess {
        shown: &[ShownItems {
            array: "TransactionStates",
            name: "TransactionalId",
            kind: ResourceType::TransactionalId,
            operation: AclOperation::Describe,
            by_cluster: false,
        }],
        ..ApiAccess::open(66)
    },
    ApiAccess::open(71),
    ApiAccess::open(72),
    ApiAccess {
        bits: &[OperationBits {
            array: "Topics",
            name: "Name",
            field: "TopicAuthorizedOperations",
            kind: ResourceType::Topic,
        }],
        ..ApiAccess::each(75, &DESCRIBE_PARTITIONS)
    },
];

const CLUSTER_BITS: OperationBits = OperationBits {
    array: "",
    name: "",
    field: "ClusterAuthorizedOperations",
    kind: ResourceType::Cluster,
};

/// A check of topics by the name in `name`.
const fn topics(
    array: &'static str,
    name: &'static str,
    operation: AclOperation,
    into: &'static str,
    error_element: ErrorElement,
) -> ItemCheck {
    ItemCheck {
        array,
        name,
        kind: ResourceType::Topic,
        operation,
        cluster: None,
        error: TOPIC_DENIED,
        into,
        error_element,
    }
}

const SAME_NAME: &[(&str, &str)] = &[("Name", "Name"), ("TopicId", "TopicId")];
const SAME_TOPIC: &[(&str, &str)] = &[("Topic", "Topic"), ("TopicId", "TopicId")];

const PRODUCE: ItemCheck = topics(
    "TopicData",
    "Name",
    AclOperation::Write,
    "Responses",
    ErrorElement::topic(
        SAME_NAME,
        &NestedErrorElement {
            from: "PartitionData",
            into: "PartitionResponses",
            error_element: ErrorElement {
                copy: &[("Index", "Index")],
                set: &[("BaseOffset", -1)],
                ..ErrorElement::EMPTY
            },
        },
    ),
);

const FETCH: ItemCheck = topics(
    "Topics",
    "Topic",
    AclOperation::Read,
    "Responses",
    ErrorElement::topic(
        SAME_TOPIC,
        &NestedErrorElement {
            from: "Partitions",
            into: "Partitions",
            error_element: ErrorElement {
                copy: &[("Partition", "PartitionIndex")],
                set: &[("HighWatermark", -1)],
                ..ErrorElement::EMPTY
            },
        },
    ),
);

const LIST_OFFSETS: ItemCheck = topics(
    "Topics",
    "Name",
    AclOperation::Describe,
    "Topics",
    ErrorElement::topic(SAME_NAME, &SAME_PARTITIONS),
);

/// Partitions of requests that are structures.
pub(super) const SAME_PARTITIONS: NestedErrorElement = NestedErrorElement {
    from: "Partitions",
    into: "Partitions",
    error_element: ErrorElement {
        copy: &[("PartitionIndex", "PartitionIndex")],
        ..ErrorElement::EMPTY
    },
};

const METADATA: ItemCheck = topics(
    "Topics",
    "Name",
    AclOperation::Describe,
    "Topics",
    ErrorElement {
        copy: &[("Name", "Name")],
        ..ErrorElement::EMPTY
    },
);

const DESCRIBE_PARTITIONS: ItemCheck = topics(
    "Topics",
    "Name",
    AclOperation::Describe,
    "Topics",
    ErrorElement {
        copy: &[("Name", "Name")],
        ..ErrorElement::EMPTY
    },
);

const LEADER_EPOCHS: ItemCheck = ItemCheck {
    cluster: Some(AclOperation::ClusterAction),
    ..topics(
        "Topics",
        "Topic",
        AclOperation::Describe,
        "Topics",
        ErrorElement::topic(
            SAME_TOPIC,
            &NestedErrorElement {
                from: "Partitions",
                into: "Partitions",
                error_element: ErrorElement {
                    copy: &[("Partition", "Partition")],
                    ..ErrorElement::EMPTY
                },
            },
        ),
    )
};

/// Requests of clients; those of brokers need a right on the cluster.
const ADD_PARTITIONS: ItemCheck = topics(
    "V3AndBelowTopics",
    "Name",
    AclOperation::Write,
    "ResultsByTopicV3AndBelow",
    ErrorElement::topic(SAME_NAME, &ADDED_PARTITIONS),
);

pub(crate) const ADDED_PARTITIONS: NestedErrorElement = NestedErrorElement {
    from: "Partitions",
    into: "ResultsByPartition",
    error_element: ErrorElement {
        copy: &[("", "PartitionIndex")],
        error: "PartitionErrorCode",
        ..ErrorElement::EMPTY
    },
};

/// Topics of OffsetCommit and TxnOffsetCommit.
pub(super) const OFFSET_COMMIT: ItemCheck = topics(
    "Topics",
    "Name",
    AclOperation::Read,
    "Topics",
    ErrorElement::topic(SAME_NAME, &SAME_PARTITIONS),
);

const DESCRIBE_TRANSACTIONS: ItemCheck = ItemCheck {
    kind: ResourceType::TransactionalId,
    error: super::super::table::TRANSACTION_DENIED,
    ..topics(
        "TransactionalIds",
        "",
        AclOperation::Describe,
        "TransactionStates",
        ErrorElement {
            copy: &[("", "TransactionalId")],
            ..ErrorElement::EMPTY
        },
    )
};
