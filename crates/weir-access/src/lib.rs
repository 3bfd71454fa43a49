//! Identities of clients and what they may do: tokens and keys, sessions per user, item rules.
//!
//! `weir-identity` decides; this crate fetches keys, keeps what all shards share, and gives each
//! session its [`SessionAccess`]. Nothing here runs per update.

mod access;
pub mod audit;
mod authenticator;
mod certificate;
mod config;
mod counters;
mod credentials;
mod details;
mod explain;
mod failure;
mod findings;
mod item_access;
mod key_source;
mod keys;
mod rate_bucket;
mod usage;

pub use access::SessionAccess;
pub use authenticator::{AccessChange, AccessTime, Admitted, Authenticator};
pub use config::{AccessConfig, AccessError, RawAccess};
pub use counters::AccessEnd;
pub use credentials::{ConnectionCredentials, Credentials};
pub use details::AccessDetails;
pub use explain::TokenRefusal;
pub use failure::AuthFailure;
pub use item_access::{ItemLimits, SubscriptionAccess};
pub use rate_bucket::RateBucket;
