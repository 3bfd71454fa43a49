//! APIs of groups: consumers, share groups, Streams groups.

use weir_identity::acl::{AclOperation, ResourceType};

use super::data::{OFFSET_COMMIT, SAME_PARTITIONS};
use crate::table::{
    ApiAccess, ErrorElement, GROUP_DENIED, ItemCheck, NestedErrorElement, OperationBits,
    ShownItems, TOPIC_DENIED, WholeCheck,
};

/// OffsetCommit, OffsetFetch, FindCoordinator, the requests of members, and those of
/// administrators. What OffsetFetch, FindCoordinator, the heartbeats and descriptions of newer
/// groups need beyond this table is in `requests`.
pub(super) const APIS: &[ApiAccess] = &[
    ApiAccess {
        whole: READ,
        ..ApiAccess::each(8, &OFFSET_COMMIT)
    },
    ApiAccess::open(9),
    ApiAccess::open(10),
    ApiAccess::of(11, READ),
    ApiAccess::of(12, READ),
    ApiAccess::of(13, READ),
    ApiAccess::of(14, READ),
    ApiAccess {
        bits: GROUP_BITS,
        ..ApiAccess::each(15, &DESCRIBE_GROUPS)
    },
    ApiAccess {
        shown: &[ShownItems {
            array: "Groups",
            name: "GroupId",
            kind: ResourceType::Group,
            operation: AclOperation::Describe,
            by_cluster: true,
        }],
        ..ApiAccess::open(16)
    },
    ApiAccess::each(42, &DELETE_GROUPS),
    ApiAccess {
        whole: &[WholeCheck::group(&[AclOperation::Delete])],
        ..ApiAccess::each(47, &OFFSET_COMMIT)
    },
    ApiAccess::of(68, READ),
    describe(69),
    ApiAccess::of(76, READ),
    describe(77),
    ApiAccess {
        whole: READ,
        ..ApiAccess::each(78, &SHARE_FETCH)
    },
    ApiAccess {
        whole: READ,
        ..ApiAccess::each(79, &SHARE_FETCH)
    },
    ApiAccess::of(88, READ),
    describe(89),
    ApiAccess::open(90),
    ApiAccess {
        whole: READ,
        ..ApiAccess::each(91, &ALTER_SHARE_OFFSETS)
    },
    ApiAccess {
        whole: &[WholeCheck::group(&[AclOperation::Delete])],
        ..ApiAccess::each(92, &DELETE_SHARE_OFFSETS)
    },
];

const READ: &[WholeCheck] = &[WholeCheck::group(&[AclOperation::Read])];

const GROUP_BITS: &[OperationBits] = &[OperationBits {
    array: "Groups",
    name: "GroupId",
    field: "AuthorizedOperations",
    kind: ResourceType::Group,
}];

/// Description of consumer, share or Streams groups.
const fn describe(key: i16) -> ApiAccess {
    ApiAccess {
        bits: GROUP_BITS,
        ..ApiAccess::each(key, &DESCRIBE_NEW_GROUPS)
    }
}

const fn groups(array: &'static str, operation: AclOperation, into: &'static str) -> ItemCheck {
    ItemCheck {
        array,
        name: "",
        kind: ResourceType::Group,
        operation,
        cluster: None,
        error: GROUP_DENIED,
        into,
        error_element: ErrorElement {
            copy: &[("", "GroupId")],
            ..ErrorElement::EMPTY
        },
    }
}

const DESCRIBE_GROUPS: ItemCheck = groups("Groups", AclOperation::Describe, "Groups");
const DESCRIBE_NEW_GROUPS: ItemCheck = groups("GroupIds", AclOperation::Describe, "Groups");
const DELETE_GROUPS: ItemCheck = groups("GroupsNames", AclOperation::Delete, "Results");

const SHARE_FETCH: ItemCheck = ItemCheck {
    array: "Topics",
    name: "",
    kind: ResourceType::Topic,
    operation: AclOperation::Read,
    cluster: None,
    error: TOPIC_DENIED,
    into: "Responses",
    error_element: ErrorElement::topic(&[("TopicId", "TopicId")], &SAME_PARTITIONS),
};

const ALTER_SHARE_OFFSETS: ItemCheck = ItemCheck {
    name: "TopicName",
    error_element: ErrorElement::topic(
        &[("TopicName", "TopicName")],
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
    ..SHARE_FETCH
};

const DELETE_SHARE_OFFSETS: ItemCheck = ItemCheck {
    name: "TopicName",
    error_element: ErrorElement {
        copy: &[("TopicName", "TopicName")],
        has_message: true,
        ..ErrorElement::EMPTY
    },
    ..SHARE_FETCH
};
