//! Item rules: compiled for all identities once, for one identity when its session begins.
//!
//! Nothing here runs per update. A subscription costs one look-up per item in the table of prefixes
//! and one more if rules name its parameters literally.

mod check;
mod compile;
mod decision;
mod explain;
mod grants;
mod index;
mod message;
mod record_class;

pub use check::{ClaimSources, ConnectionFacts, ItemShape, RuleFinding, rule_findings};
pub use compile::ItemRules;
pub use decision::{Allowance, Denial, ItemAccess, SubscriptionDenial};
pub use explain::{RuleExplanation, RuleReason, explain_rules};
pub use grants::{GrantTable, Grants};
pub use message::{MessageGrant, MessageRights, shadowed_messages};
pub use record_class::{RecordClass, RecordSelection};
