//! Meaning of an adapter's outcomes for sessions, subscriptions and messages: requests to send,
//! limits that apply, codes that clients get.

mod cache;
mod limits;
mod refusal;
mod session;
mod subscription;
#[cfg(test)]
mod tests;

pub use cache::ItemCache;
pub use limits::{AdapterLimits, RequestedLimits};
pub use refusal::{ClientRefusal, SubscriptionRefusal, message_refusal};
pub use session::{ClientInfo, SessionDecision, UserDecision, session_decision, user_decision};
pub use subscription::{RequestedSubscription, SubscriptionFlow, SubscriptionProgress};
