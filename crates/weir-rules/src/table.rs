//! How the access rules apply to an API.

use weir_identity::acl::{AclOperation, ResourceType};

/// Access to an API.
#[derive(Debug)]
pub(super) struct ApiAccess {
    pub(super) key: i16,
    /// Resources that decide about the whole request.
    pub(super) whole: &'static [WholeCheck],
    /// Array whose elements are decided about one by one.
    pub(super) items: Option<&'static ItemCheck>,
    /// Arrays of the response without what the client may not see.
    pub(super) shown: &'static [ShownItems],
    /// Authorized operations in the response.
    pub(super) bits: &'static [OperationBits],
}

impl ApiAccess {
    /// An API that any client may use.
    pub(super) const fn open(key: i16) -> Self {
        Self {
            key,
            whole: &[],
            items: None,
            shown: &[],
            bits: &[],
        }
    }

    /// An API whose requests one resource decides about.
    pub(super) const fn of(key: i16, whole: &'static [WholeCheck]) -> Self {
        Self {
            whole,
            ..Self::open(key)
        }
    }

    /// An API whose requests have an array of resources.
    pub(super) const fn each(key: i16, items: &'static ItemCheck) -> Self {
        Self {
            items: Some(items),
            ..Self::open(key)
        }
    }
}

/// A check of a resource that a request names in a field.
#[derive(Debug)]
pub(super) struct WholeCheck {
    /// Field with the name; empty for the cluster. Null needs no right.
    pub(super) field: &'static str,
    pub(super) kind: ResourceType,
    /// Operations of which one must be allowed.
    pub(super) operations: &'static [AclOperation],
    pub(super) error: i16,
}

impl WholeCheck {
    /// Check of the cluster.
    pub(super) const fn cluster(operations: &'static [AclOperation]) -> Self {
        Self {
            field: "",
            kind: ResourceType::Cluster,
            operations,
            error: CLUSTER_DENIED,
        }
    }

    /// Check of the group in field `GroupId`.
    pub(super) const fn group(operations: &'static [AclOperation]) -> Self {
        Self {
            field: "GroupId",
            kind: ResourceType::Group,
            operations,
            error: GROUP_DENIED,
        }
    }

    /// Check of the transactional id in field `TransactionalId`.
    pub(super) const fn transaction() -> Self {
        Self {
            field: "TransactionalId",
            kind: ResourceType::TransactionalId,
            operations: &[AclOperation::Write],
            error: TRANSACTION_DENIED,
        }
    }
}

/// A check of the elements of an array. Denied ones are removed from the request, and the response
/// contains an error for each of them.
#[derive(Debug)]
pub(super) struct ItemCheck {
    /// Array of the request.
    pub(super) array: &'static str,
    /// Field of its elements with the name; elements with a topic id have none. Empty if the
    /// elements are names.
    pub(super) name: &'static str,
    pub(super) kind: ResourceType,
    pub(super) operation: AclOperation,
    /// Operation on the cluster that allows all.
    pub(super) cluster: Option<AclOperation>,
    pub(super) error: i16,
    /// Array of the response.
    pub(super) into: &'static str,
    pub(super) error_element: ErrorElement,
}

/// How an element of a response follows from one of the request.
#[derive(Debug)]
pub(super) struct ErrorElement {
    /// Fields of request and response with the same value.
    pub(super) copy: &'static [(&'static str, &'static str)],
    /// Array within the element.
    pub(super) nested: Option<&'static NestedErrorElement>,
    /// Fields with other values than their defaults.
    pub(super) set: &'static [(&'static str, i64)],
    /// Field with the error; empty if only the nested elements have one.
    pub(super) error: &'static str,
    /// The field `ErrorMessage` has the default text of the error.
    pub(super) has_message: bool,
}

impl ErrorElement {
    pub(super) const EMPTY: Self = Self {
        copy: &[],
        nested: None,
        set: &[],
        error: "ErrorCode",
        has_message: false,
    };

    /// Element of a topic with its partitions.
    pub(super) const fn topic(
        copy: &'static [(&'static str, &'static str)],
        nested: &'static NestedErrorElement,
    ) -> Self {
        Self {
            copy,
            nested: Some(nested),
            error: "",
            ..Self::EMPTY
        }
    }
}

/// An array of the request, one of the response, and how their elements correspond.
#[derive(Debug)]
pub(super) struct NestedErrorElement {
    pub(super) from: &'static str,
    pub(super) into: &'static str,
    pub(super) error_element: ErrorElement,
}

/// Elements of a response that clients see only with a right.
#[derive(Debug)]
pub(super) struct ShownItems {
    pub(super) array: &'static str,
    /// Field with the name.
    pub(super) name: &'static str,
    pub(super) kind: ResourceType,
    pub(super) operation: AclOperation,
    /// The client may see all if this is allowed on the cluster.
    pub(super) by_cluster: bool,
}

/// Field with the operations that the client may use. Bits of others are removed.
#[derive(Debug)]
pub(super) struct OperationBits {
    /// Array of resources; empty if the field is the cluster's.
    pub(super) array: &'static str,
    pub(super) name: &'static str,
    pub(super) field: &'static str,
    pub(super) kind: ResourceType,
}

pub(super) const TOPIC_DENIED: i16 = 29;
pub(super) const GROUP_DENIED: i16 = 30;
pub(super) const CLUSTER_DENIED: i16 = 31;
pub(super) const TRANSACTION_DENIED: i16 = 53;
pub(super) const NOT_ATTEMPTED: i16 = 55;
pub(super) const TOKEN_DENIED: i16 = 65;
pub(super) const FETCH_SESSION_NOT_FOUND: i16 = 70;
pub(super) const UNKNOWN_TOPIC_ID: i16 = 100;
pub(super) const SHARE_SESSION_NOT_FOUND: i16 = 122;

/// Returns the text of an error as brokers write it.
pub(super) fn message(error: i16) -> &'static str {
    match error {
        TOPIC_DENIED => "Topic authorization failed.",
        GROUP_DENIED => "Group authorization failed.",
        CLUSTER_DENIED => "Cluster authorization failed.",
        TRANSACTION_DENIED => "Transactional Id authorization failed.",
        TOKEN_DENIED => "Delegation Token authorization failed.",
        _ => "",
    }
}
