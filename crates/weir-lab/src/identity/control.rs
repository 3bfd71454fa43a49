//! Control requests to the process of the OpenID provider.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{LabError, Result};
use crate::http::{self, HttpRequest};

/// Port on which the provider takes control requests.
#[derive(Debug)]
pub(super) struct ControlPort {
    name: &'static str,
    host: Ipv4Addr,
    port: u16,
}

impl ControlPort {
    /// Creates a handle; `name` is used in errors.
    pub(super) fn new(name: &'static str, host: Ipv4Addr, port: u16) -> Self {
        Self { name, host, port }
    }

    /// Sends a request and returns the response.
    pub(super) fn request<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        let failed = |error| LabError::io(format!("control request {path}"), error);
        let request = HttpRequest {
            method: "POST",
            path,
            headers: &[],
            body: &body.to_string(),
        };
        let response = http::send(self.host, self.port, request, REQUEST_TIMEOUT);
        let response = response.map_err(failed)?;
        if response.status != 200 {
            return Err(LabError::Rejected(
                self.name,
                response.status,
                response.body,
            ));
        }
        serde_json::from_str(&response.body).map_err(|error| failed(error.into()))
    }
}

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
