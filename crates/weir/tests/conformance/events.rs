//! Configuration and events of a driver (docs/conformance.md).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::test_env::ADAPTER_SET;

/// Configuration of a driver, its command line argument.
#[derive(Debug, Serialize)]
pub(crate) struct DriverConfig {
    pub(crate) server: String,
    pub(crate) adapter_set: &'static str,
    /// `None` means the default of the SDK.
    pub(crate) transport: Option<&'static str>,
    /// `None` means the default of SDK and gateway.
    pub(crate) keepalive_ms: Option<u32>,
    /// Names of setters of the SDK's connection options, without "set".
    pub(crate) options: BTreeMap<&'static str, serde_json::Value>,
    /// User and password of sessions.
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Cookie for the gateway, with its name. The process then serves no other client.
    pub(crate) cookie: Option<String>,
    pub(crate) debug: bool,
    /// `true` if the driver also reports the events of [`SdkEvent::is_detail`].
    pub(crate) details: bool,
    pub(crate) subscriptions: Vec<Subscription>,
}

/// One subscription of the driver.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Subscription {
    pub(crate) data_adapter: String,
    pub(crate) mode: &'static str,
    pub(crate) items: Vec<String>,
    pub(crate) fields: Vec<&'static str>,
    pub(crate) snapshot: Option<&'static str>,
    /// Updates per second and item, "unlimited" or "unfiltered".
    pub(crate) max_frequency: Option<&'static str>,
    /// Maximum number of queued updates per item, or "unlimited".
    pub(crate) buffer: Option<&'static str>,
    /// Second-level subscription of mode COMMAND for each key.
    pub(crate) second_level: Option<SecondLevel>,
}

/// Second-level subscriptions, which the SDK creates itself with keys as items.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SecondLevel {
    pub(crate) data_adapter: String,
    pub(crate) fields: Vec<&'static str>,
}

impl DriverConfig {
    /// Creates a configuration with the defaults of the SDK.
    pub(crate) fn new(server: SocketAddr, subscriptions: Vec<Subscription>) -> Self {
        Self {
            server: format!("http://{server}"),
            adapter_set: ADAPTER_SET,
            transport: None,
            keepalive_ms: None,
            options: BTreeMap::new(),
            user: None,
            password: None,
            cookie: None,
            debug: true,
            details: true,
            subscriptions,
        }
    }

    /// Adds an option of the SDK.
    pub(crate) fn option(
        mut self,
        name: &'static str,
        value: impl Into<serde_json::Value>,
    ) -> Self {
        self.options.insert(name, value.into());
        self
    }
}

/// Events of a driver. `sub` is the index of the subscription in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum SdkEvent {
    /// Last event of a client that the driver has ended, see [`super::driver_process`].
    Closed,
    Status {
        status: String,
    },
    Subscribed {
        sub: usize,
    },
    Unsubscribed {
        sub: usize,
    },
    Update(Update),
    SubscriptionError {
        sub: usize,
        code: i32,
        message: String,
    },
    ServerError {
        code: i32,
        message: String,
    },
    Lost {
        sub: usize,
        item: String,
        n: usize,
    },
    EndOfSnapshot {
        sub: usize,
        item: String,
    },
    ClearSnapshot {
        sub: usize,
        item: String,
    },
    RealMaxFrequency {
        sub: usize,
        value: Option<String>,
    },
    RealMaxBandwidth {
        value: Option<String>,
    },
    /// Outcome of a message, with code and text if it was denied.
    Message {
        text: String,
        outcome: String,
        code: Option<i32>,
        message: Option<String>,
    },
}

impl SdkEvent {
    /// Returns `true` for events that cases ignore unless they request them.
    pub(crate) fn is_detail(&self) -> bool {
        matches!(
            self,
            Self::EndOfSnapshot { .. }
                | Self::RealMaxFrequency { .. }
                | Self::RealMaxBandwidth { .. }
        )
    }
}

/// An update received by the SDK's listener.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Update {
    pub(crate) sub: usize,
    pub(crate) item: String,
    pub(crate) pos: usize,
    pub(crate) values: BTreeMap<String, Option<String>>,
    pub(crate) changed: Vec<String>,
    pub(crate) snapshot: bool,
    /// Fields received as a JSON Patch.
    pub(crate) patched: Vec<String>,
}

impl Update {
    /// Returns the value of a field.
    pub(crate) fn value(&self, field: &str) -> Option<&str> {
        self.values.get(field)?.as_deref()
    }
}
