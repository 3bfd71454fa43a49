//! Encryption and login of the drivers.

use std::path::PathBuf;

use weir_drivers::ClientFileContent;

use crate::BenchError;
use crate::experiment::RunBroker;

/// Writes the client properties for the drivers, and returns the path.
pub(super) fn client_file(broker: &RunBroker) -> Result<Option<PathBuf>, BenchError> {
    let Some(files) = &broker.client_file else {
        return Ok(None);
    };
    let failed = |error: &dyn std::fmt::Display| BenchError::Libraries(error.to_string());
    let token = ClientFileContent::token(&broker.kafka).map_err(|error| failed(&error))?;
    let token = token
        .map(|token| files.add("token", token.as_bytes()))
        .transpose();
    let token = token.map_err(BenchError::ClientFile)?;
    let content = ClientFileContent::of(&broker.kafka, token.as_deref());
    let content = content.map_err(|error| failed(&error))?.to_json();
    let path = files.add("client.json", content.as_bytes());
    path.map(Some).map_err(BenchError::ClientFile)
}
