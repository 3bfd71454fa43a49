//! Access rules: what clients may do with topics, groups, transactional ids and the cluster.
//!
//! A request is decoded and decided about before its first byte is forwarded. What is denied is
//! removed from it, and the response gets the error that a broker would send. APIs and versions
//! that are not known here are not offered.

mod apis;
mod check;
mod config;
mod decide;
mod frames;
mod mirror;
mod pending;
mod response;
mod rules;
mod session;
mod shown;
mod special;
mod table;

pub(crate) use config::AccessConfig;
pub(crate) use decide::Verdict;
pub(crate) use frames::{Access, AccessState};
pub(crate) use pending::PendingAccess;
pub(crate) use rules::AccessRules;

#[cfg(test)]
mod tests;
