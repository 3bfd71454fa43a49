//! Logins on connections of the proxy itself.

use std::io;
use std::sync::Arc;

use super::credentials::Credential;
use super::step::{LoginStep, StepOutcome};
use crate::broker_connection::BrokerConnection;
use crate::config::HostPort;

/// Logs in with a credential of the proxy.
pub(crate) fn log_in(
    connection: &mut BrokerConnection,
    credential: Arc<Credential>,
    host: &HostPort,
) -> io::Result<()> {
    let mut step = LoginStep::Begin(credential, Arc::clone(&host.host));
    loop {
        step = match step.run() {
            StepOutcome::Send(dialogue, frame) => {
                LoginStep::Continue(dialogue, connection.exchange_frame(&frame)?)
            }
            StepOutcome::Complete(_) => return Ok(()),
            StepOutcome::Failed(error) => return Err(io::Error::other(error)),
        };
    }
}
