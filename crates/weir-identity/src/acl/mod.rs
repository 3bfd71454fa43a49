//! Access rules of Kafka: who may do what with topics, groups, transactional ids and the cluster.
//!
//! A rule is an ACL as in Kafka's own authorizer, and decisions are the same: a matching rule that
//! denies wins, then one that allows; without a match the request is denied.

mod address;
mod listing;
mod operation;
mod prefixes;
mod rule;
mod set;
mod subject;

pub use address::{AddressRange, AddressRangeError};
pub use listing::{ListingError, parse_listing};
pub use operation::{AclOperation, OperationSet, ResourceType, UnknownWord};
pub use rule::{AclRule, Effect, NamePattern};
pub use set::{AclDecision, AclSet};
pub use subject::{AclSubject, DecisionCache};
