//! Logins of clients that end at the proxy: users, tokens, checks of credentials, limits and
//! counters. The protocol is that of `weir-sasl`.

mod certified;
mod check;
mod cluster_logins;
mod config;
mod gate;
mod rejection_limiter;
mod tokens;

pub(crate) use certified::{CertificatePrincipals, RawCertificatePrincipals};
pub(crate) use check::CheckOutcome;
pub(crate) use cluster_logins::{ClusterLogins, LoginOutcome};
pub(crate) use config::RawIdentity;
pub(crate) use gate::{GateAction, LoginGate};
