//! Identities of clients and what they may do: tokens and keys, sessions per user, item rules.
//!
//! `weir-identity` decides; this module fetches keys, keeps what all shards share, and gives each
//! session its [`SessionAccess`]. Nothing here runs per update.

mod access;
mod authenticator;
mod config;
mod counters;
mod credentials;
mod explain;
mod failure;
mod findings;
mod item_access;
mod key_source;
mod keys;
mod usage;

pub(crate) use access::SessionAccess;
pub(crate) use authenticator::{AccessChange, AccessTime, Admitted, Authenticator};
pub use config::AccessConfig;
pub(crate) use config::RawAccess;
pub(crate) use counters::AccessEnd;
pub(crate) use credentials::{ConnectionCredentials, Credentials};
pub use explain::TokenRefusal;
pub(crate) use failure::AuthFailure;
pub(crate) use item_access::{ItemLimits, SubscriptionAccess};
