//! Checks that files named by connector parameters exist, and loads schema files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_mapping::{ConnectionConfig, Location, Note, Parameter, Severity};

use crate::error::{GatewayError, in_file};

/// Returns a note if the connector's log configuration is missing; the gateway does not use it.
pub(crate) fn missing_log_file(adapters: &Path, logging: Option<&Parameter>) -> Option<Note> {
    let Parameter { name, value, line } = logging?;
    let dir = adapters.parent().unwrap_or_else(|| Path::new(""));
    let is_missing = !dir.join(value).is_file();
    is_missing.then(|| Note {
        severity: Severity::Info,
        at: in_file(adapters.display(), *line),
        text: format!("parameter [{name}]: \"{value}\" does not exist; it is not used here"),
    })
}

/// Returns an error for each missing file of a connection, as the connector does at start.
pub(crate) fn missing_files(
    config_file: &Path,
    connection: &ConnectionConfig,
) -> impl Iterator<Item = GatewayError> {
    let missing = |file: &&Parameter| !Path::new(&file.value).is_file();
    connection.files.iter().filter(missing).map(move |file| {
        let path = Path::new(&file.value);
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        GatewayError::Config {
            at: Location {
                connection: Some(connection.name.clone()),
                ..in_file(config_file.display(), file.line)
            },
            reason: format!(
                "not found file [{}] specified in [{}]; create it or correct the path, which \
                 starts at the directory of the configuration file",
                absolute.display(),
                file.name
            ),
        }
    })
}

/// Maximum size of a schema file.
const SCHEMA_BYTES_MAX: u64 = 64 << 20;

/// Loads the schema files of a connection. Returns an error for each one that cannot be used;
/// [`missing_files`] reports those that do not exist.
pub(crate) fn unusable_schemas(
    config_file: &Path,
    connection: &ConnectionConfig,
) -> Vec<GatewayError> {
    let files = connection.schema_files.iter();
    let files = files.filter(|file| Path::new(&file.parameter.value).is_file());
    let unusable = files.filter_map(|file| {
        let Parameter { name, value, line } = &file.parameter;
        let read = read_limited(Path::new(value)).map_err(|error| error.to_string());
        let loaded = read.and_then(|bytes| file.load(&bytes).map_err(|error| error.to_string()));
        let reason = loaded.err()?;
        Some(GatewayError::Config {
            at: Location {
                connection: Some(connection.name.clone()),
                ..in_file(config_file.display(), *line)
            },
            reason: format!("schema file [{value}] specified in [{name}]: {reason}"),
        })
    });
    unusable.collect()
}

fn read_limited(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = File::open(path)?
        .take(SCHEMA_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if count as u64 > SCHEMA_BYTES_MAX {
        let text = format!("more than {SCHEMA_BYTES_MAX} bytes");
        return Err(std::io::Error::other(text));
    }
    Ok(bytes)
}
