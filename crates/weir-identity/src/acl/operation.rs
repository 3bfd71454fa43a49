//! Resource types and operations of Kafka's ACLs.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A word that names no resource type or operation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown {what} \"{word}\"")]
pub struct UnknownWord {
    what: &'static str,
    word: String,
}

/// Compares words without regard to case, underscores and dashes.
fn is_word(word: &str, name: &str) -> bool {
    let letters = |text: &str| {
        let letters = text.chars().filter(|c| !matches!(c, '_' | '-'));
        letters.map(|c| c.to_ascii_uppercase()).collect::<String>()
    };
    letters(word) == letters(name)
}

macro_rules! words {
    (
        $(#[$meta:meta])* $type:ident $what:literal
        $($(#[$doc:meta])* $name:ident $word:literal $code:literal)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type { $($(#[$doc])* $name),* }

        impl $type {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the name as Kafka's tools print it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// Returns the number in Kafka's protocol.
            pub fn code(self) -> u8 {
                match self { $(Self::$name => $code),* }
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                let found = Self::ALL.iter().find(|one| is_word(word, one.name()));
                found.copied().ok_or_else(|| UnknownWord { what: $what, word: word.to_owned() })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

words! {
    /// Type of a resource.
    ResourceType "resource type"
    /// Topics.
    Topic "TOPIC" 2
    /// Groups of consumers, share groups and Streams groups.
    Group "GROUP" 3
    /// The cluster; its only name is [`AclRule::CLUSTER`](super::AclRule::CLUSTER).
    Cluster "CLUSTER" 4
    /// Transactional ids.
    TransactionalId "TRANSACTIONAL_ID" 5
    /// Delegation tokens.
    DelegationToken "DELEGATION_TOKEN" 6
    /// Principals for which delegation tokens are created.
    User "USER" 7
}

words! {
    /// Operation on a resource.
    AclOperation "operation"
    /// All operations; only in rules.
    All "ALL" 2
    /// Reads.
    Read "READ" 3
    /// Writes.
    Write "WRITE" 4
    /// Creates.
    Create "CREATE" 5
    /// Deletes.
    Delete "DELETE" 6
    /// Changes.
    Alter "ALTER" 7
    /// Describes.
    Describe "DESCRIBE" 8
    /// Requests between brokers.
    ClusterAction "CLUSTER_ACTION" 9
    /// Reads the configuration.
    DescribeConfigs "DESCRIBE_CONFIGS" 10
    /// Changes the configuration.
    AlterConfigs "ALTER_CONFIGS" 11
    /// Writes with an idempotent producer.
    IdempotentWrite "IDEMPOTENT_WRITE" 12
    /// Creates delegation tokens for another user.
    CreateTokens "CREATE_TOKENS" 13
    /// Describes delegation tokens of another user.
    DescribeTokens "DESCRIBE_TOKENS" 14
    /// Takes part in a two-phase commit.
    TwoPhaseCommit "TWO_PHASE_COMMIT" 15
}

/// A set of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationSet(u16);

impl OperationSet {
    /// Returns the bit of an operation, as in Kafka's authorized operations.
    pub fn bit(operation: AclOperation) -> u16 {
        1 << operation.code()
    }

    /// Adds an operation.
    pub fn insert(&mut self, operation: AclOperation) {
        self.0 |= Self::bit(operation);
    }

    /// Returns `true` if the operation is in the set.
    pub fn contains(self, operation: AclOperation) -> bool {
        self.0 & Self::bit(operation) != 0
    }

    /// Returns the bits by the numbers of the operations.
    pub fn bits(self) -> u16 {
        self.0
    }
}

impl AclOperation {
    /// Returns the operations for which a rule with this operation decides. Only rules that allow
    /// imply other operations.
    pub(super) fn implied_operations(self, allows: bool) -> OperationSet {
        let mut operations = OperationSet::default();
        operations.insert(self);
        match self {
            Self::All => Self::ALL.iter().for_each(|one| operations.insert(*one)),
            Self::Read | Self::Write | Self::Delete | Self::Alter if allows => {
                operations.insert(Self::Describe);
            }
            Self::AlterConfigs if allows => operations.insert(Self::DescribeConfigs),
            _ => {}
        }
        operations
    }
}
