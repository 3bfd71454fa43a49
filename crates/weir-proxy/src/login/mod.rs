//! Logins of clients that end at the proxy: users, checks of passwords, limits and counters. The
//! protocol is that of `weir-sasl`.

mod cluster_logins;
mod config;
mod gate;
mod rejection_limiter;

pub(crate) use cluster_logins::{ClusterLogins, LoginOutcome};
pub(crate) use config::RawIdentity;
pub(crate) use gate::{GateAction, LoginGate};
