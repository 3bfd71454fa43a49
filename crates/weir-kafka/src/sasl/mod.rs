//! Logins at brokers (SASL) as state machines without sockets: mechanisms, the requests that carry
//! them, and when to log in again.

mod error;
mod exchange;
mod login;
mod scram;
mod session;

pub use error::{LoginError, ScramError};
pub(crate) use exchange::{SaslExchange, random_nonce};
pub(crate) use login::{LoginDialogue, LoginProgress};
pub(crate) use scram::ScramUser;
pub(crate) use session::LoginSession;
