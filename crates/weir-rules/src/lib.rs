//! Access rules of the proxy: what clients may do with topics, groups, transactional ids and the
//! cluster; and the audit log of what they did.
//!
//! A request is decoded and decided about before its first byte is forwarded. What is denied is
//! removed from it, and the response gets the error that a broker would send. APIs and versions
//! that are not known here are not offered.

mod apis;
pub mod audit;
mod check;
mod config;
mod decide;
mod error_element;
mod frames;
mod pending;
mod response;
mod rules;
mod session;
mod shown;
mod special;
mod start;
mod table;

pub use config::AclConfig;
pub use decide::RequestDecision;
pub use frames::{Access, AccessState};
pub use pending::ResponseChanges;
pub use rules::AccessRules;

#[cfg(test)]
mod tests;
