//! Logins at brokers: mechanisms, the requests that carry them, and when to log in again.

mod error;
mod exchange;
mod login;
mod method;
mod scram;
mod session;

pub use error::{LoginError, ScramError};
pub use exchange::SaslExchange;
pub use login::{LoginDialogue, LoginProgress};
pub use method::{LoginMethod, UnusableLogin};
pub use scram::ScramUser;
pub use session::LoginSession;
