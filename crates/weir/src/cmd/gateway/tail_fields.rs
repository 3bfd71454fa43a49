//! The fields of an item that `--fields` does not name: those that the gateway maps.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;
use ureq::{Agent, Proxy};

/// Name of the data adapter that clients get without naming one.
const DEFAULT_ADAPTER: &str = "DEFAULT";

/// Requests the list of `/try` from the admin port.
pub(super) fn fields(admin: &str, adapter: Option<&str>, timeout: Duration) -> Result<Vec<String>> {
    let base = match admin.contains("://") {
        true => admin.trim_end_matches('/').to_owned(),
        false => format!("http://{admin}"),
    };
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None::<Proxy>)
        .build()
        .into();
    let remedy = "name the fields with --fields";
    let unknown =
        || format!("the fields are not known, because {base} does not list them: {remedy}");
    let mut response = agent
        .get(format!("{base}/try.json"))
        .call()
        .with_context(unknown)?;
    let status = response.status().as_u16();
    ensure!(status == 200, "{} (status {status})", unknown());
    let text = response.body_mut().read_to_string().with_context(unknown)?;
    let listed: Value = serde_json::from_str(&text).with_context(unknown)?;
    let connections = listed["connections"].as_array().with_context(unknown)?;
    let wanted = adapter.unwrap_or(DEFAULT_ADAPTER);
    let found = connections.iter().find(|one| one["name"] == wanted);
    let found = found.ok_or_else(|| {
        let names = connections.iter().filter_map(|one| one["name"].as_str());
        let names: Vec<&str> = names.collect();
        let names = names.join(", ");
        anyhow!("no connection \"{wanted}\", choose one with --data-adapter: {names}")
    })?;
    let fields = found["fields"].as_array().with_context(unknown)?;
    let fields: Vec<String> = fields
        .iter()
        .filter_map(|field| field.as_str().map(str::to_owned))
        .collect();
    ensure!(
        !fields.is_empty(),
        "connection \"{wanted}\" takes any field: {remedy}"
    );
    Ok(fields)
}
