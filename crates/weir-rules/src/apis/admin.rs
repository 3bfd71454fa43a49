//! APIs of administrators.

use weir_identity::acl::{AclOperation, ResourceType};

use crate::table::{
    ApiAccess, ErrorElement, ItemCheck, NestedErrorElement, TOPIC_DENIED, WholeCheck,
};

/// Topics, markers of transactions, ACLs, log directories, partitions, elections, reassignments,
/// quotas, users, the quorum, features, brokers and voters. What topics by id, resources of
/// configurations and delegation tokens need is in `requests`.
pub(super) const APIS: &[ApiAccess] = &[
    ApiAccess::each(19, &CREATE_TOPICS),
    ApiAccess::open(20),
    ApiAccess::each(21, &DELETE_RECORDS),
    ApiAccess {
        whole: &[WholeCheck::cluster(&[
            AclOperation::Alter,
            AclOperation::ClusterAction,
        ])],
        ..ApiAccess::each(27, &MARKERS)
    },
    ApiAccess::of(29, DESCRIBE_CLUSTER),
    ApiAccess {
        whole: ALTER_CLUSTER,
        ..ApiAccess::each(30, &error_per_element("Creations", "Results", &[]))
    },
    ApiAccess {
        whole: ALTER_CLUSTER,
        ..ApiAccess::each(31, &error_per_element("Filters", "FilterResults", &[]))
    },
    ApiAccess::open(32),
    ApiAccess::open(33),
    ApiAccess::of(34, ALTER_CLUSTER),
    ApiAccess::of(35, DESCRIBE_CLUSTER),
    ApiAccess::each(37, &CREATE_PARTITIONS),
    ApiAccess::open(38),
    ApiAccess::open(39),
    ApiAccess::open(40),
    ApiAccess::open(41),
    ApiAccess {
        whole: ALTER_CLUSTER,
        ..ApiAccess::each(43, &ELECTIONS)
    },
    ApiAccess::open(44),
    ApiAccess {
        whole: ALTER_CLUSTER,
        ..ApiAccess::each(45, &REASSIGNMENTS)
    },
    ApiAccess::of(46, DESCRIBE_CLUSTER),
    ApiAccess::of(48, &[WholeCheck::cluster(&[AclOperation::DescribeConfigs])]),
    ApiAccess {
        whole: &[WholeCheck::cluster(&[AclOperation::AlterConfigs])],
        ..ApiAccess::each(
            49,
            &error_per_element("Entries", "Entries", &[("Entity", "Entity")]),
        )
    },
    ApiAccess::of(50, DESCRIBE_CLUSTER),
    ApiAccess::of(51, ALTER_CLUSTER),
    ApiAccess::of(55, DESCRIBE_CLUSTER),
    ApiAccess::of(57, ALTER_CLUSTER),
    ApiAccess::each(61, &DESCRIBE_PRODUCERS),
    ApiAccess::of(64, ALTER_CLUSTER),
    ApiAccess::of(74, &[WholeCheck::cluster(&[AclOperation::DescribeConfigs])]),
    ApiAccess::of(80, ALTER_CLUSTER),
    ApiAccess::of(81, ALTER_CLUSTER),
];

const DESCRIBE_CLUSTER: &[WholeCheck] = &[WholeCheck::cluster(&[AclOperation::Describe])];
const ALTER_CLUSTER: &[WholeCheck] = &[WholeCheck::cluster(&[AclOperation::Alter])];

/// An array whose elements need no right of their own, with an error for each.
const fn error_per_element(
    array: &'static str,
    into: &'static str,
    copy: &'static [(&'static str, &'static str)],
) -> ItemCheck {
    ItemCheck {
        array,
        name: "",
        kind: ResourceType::Cluster,
        operation: AclOperation::Alter,
        cluster: None,
        error: super::super::table::CLUSTER_DENIED,
        into,
        error_element: ErrorElement {
            copy,
            has_message: true,
            ..ErrorElement::EMPTY
        },
    }
}

const fn topics(
    operation: AclOperation,
    into: &'static str,
    error_element: ErrorElement,
) -> ItemCheck {
    ItemCheck {
        array: "Topics",
        name: "Name",
        kind: ResourceType::Topic,
        operation,
        cluster: None,
        error: TOPIC_DENIED,
        into,
        error_element,
    }
}

const SAME_NAME: &[(&str, &str)] = &[("Name", "Name")];

const CREATE_TOPICS: ItemCheck = ItemCheck {
    cluster: Some(AclOperation::Create),
    ..topics(
        AclOperation::Create,
        "Topics",
        ErrorElement {
            copy: SAME_NAME,
            has_message: true,
            ..ErrorElement::EMPTY
        },
    )
};

const DELETE_RECORDS: ItemCheck = topics(
    AclOperation::Delete,
    "Topics",
    ErrorElement::topic(
        SAME_NAME,
        &NestedErrorElement {
            from: "Partitions",
            into: "Partitions",
            error_element: ErrorElement {
                copy: &[("PartitionIndex", "PartitionIndex")],
                set: &[("LowWatermark", -1)],
                ..ErrorElement::EMPTY
            },
        },
    ),
);

const CREATE_PARTITIONS: ItemCheck = topics(
    AclOperation::Alter,
    "Results",
    ErrorElement {
        copy: SAME_NAME,
        ..ErrorElement::EMPTY
    },
);

const DESCRIBE_PRODUCERS: ItemCheck = topics(
    AclOperation::Read,
    "Topics",
    ErrorElement::topic(
        SAME_NAME,
        &NestedErrorElement {
            from: "PartitionIndexes",
            into: "Partitions",
            error_element: ErrorElement {
                copy: &[("", "PartitionIndex")],
                ..ErrorElement::EMPTY
            },
        },
    ),
);

const MARKERS: ItemCheck = ItemCheck {
    error_element: ErrorElement::topic(
        &[("ProducerId", "ProducerId")],
        &NestedErrorElement {
            from: "Topics",
            into: "Topics",
            error_element: ErrorElement::topic(
                SAME_NAME,
                &NestedErrorElement {
                    from: "PartitionIndexes",
                    into: "Partitions",
                    error_element: ErrorElement {
                        copy: &[("", "PartitionIndex")],
                        ..ErrorElement::EMPTY
                    },
                },
            ),
        },
    ),
    ..error_per_element("Markers", "Markers", &[])
};

const ELECTIONS: ItemCheck = ItemCheck {
    error_element: ErrorElement::topic(
        &[("Topic", "Topic")],
        &NestedErrorElement {
            from: "Partitions",
            into: "PartitionResult",
            error_element: ErrorElement {
                copy: &[("", "PartitionId")],
                has_message: true,
                ..ErrorElement::EMPTY
            },
        },
    ),
    ..error_per_element("TopicPartitions", "ReplicaElectionResults", &[])
};

const REASSIGNMENTS: ItemCheck = ItemCheck {
    error_element: ErrorElement::topic(
        SAME_NAME,
        &NestedErrorElement {
            from: "Partitions",
            into: "Partitions",
            error_element: ErrorElement {
                copy: &[("PartitionIndex", "PartitionIndex")],
                has_message: true,
                ..ErrorElement::EMPTY
            },
        },
    ),
    ..error_per_element("Topics", "Responses", &[])
};
