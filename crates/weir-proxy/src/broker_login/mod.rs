//! Identity of the proxy at the brokers: credentials of its own, fixed or by principal, and the
//! logins with them. The protocol is that of `weir-sasl`.

mod config;
mod credentials;
mod delegated;
mod delegation_token;
mod identity;
mod log_in;
mod step;

pub(crate) use config::RawBrokerIdentity;
pub(crate) use credentials::{Credential, IdentityMode};
pub(crate) use delegated::DelegatedLogin;
pub(crate) use delegation_token::DelegationTokens;
pub(crate) use identity::{BrokerIdentity, BrokerLoginOutcome};
pub(crate) use log_in::log_in;
pub(crate) use step::{LoginStep, RESPONSE_BYTES_MAX, StepOutcome};
