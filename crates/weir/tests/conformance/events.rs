//! Configuration and events of a driver (docs/conformance.md).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::test_env::ADAPTER_SET;

/// The driver's argument.
#[derive(Debug, Serialize)]
pub(crate) struct DriverConfig {
    pub(crate) server: String,
    pub(crate) adapter_set: &'static str,
    /// `None` leaves the choice to the SDK.
    pub(crate) transport: Option<&'static str>,
    /// `None` leaves it to SDK and gateway.
    pub(crate) keepalive_ms: Option<u32>,
    /// Setters of the SDK's connection options, without their "set".
    pub(crate) options: BTreeMap<&'static str, serde_json::Value>,
    /// For pages: a cookie that they have.
    pub(crate) cookie: Option<&'static str>,
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
    /// Updates per item that may wait, or "unlimited".
    pub(crate) buffer: Option<&'static str>,
    /// Of mode COMMAND: what the SDK subscribes to for each key.
    pub(crate) second_level: Option<SecondLevel>,
}

/// Subscriptions that the SDK makes by itself, with keys as items.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SecondLevel {
    pub(crate) data_adapter: String,
    pub(crate) fields: Vec<&'static str>,
}

impl DriverConfig {
    /// Everything the SDK decides by itself is left to it.
    pub(crate) fn new(server: SocketAddr, subscriptions: Vec<Subscription>) -> Self {
        Self {
            server: format!("http://{server}"),
            adapter_set: ADAPTER_SET,
            transport: None,
            keepalive_ms: None,
            options: BTreeMap::new(),
            cookie: None,
            debug: true,
            details: true,
            subscriptions,
        }
    }

    /// The same with an option of the SDK.
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

/// An update as the SDK's listener sees it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Update {
    pub(crate) sub: usize,
    pub(crate) item: String,
    pub(crate) pos: usize,
    pub(crate) values: BTreeMap<String, Option<String>>,
    pub(crate) changed: Vec<String>,
    pub(crate) snapshot: bool,
    /// Fields that came as a JSON Patch.
    pub(crate) patched: Vec<String>,
}

impl Update {
    /// A field's value.
    pub(crate) fn value(&self, field: &str) -> Option<&str> {
        self.values.get(field)?.as_deref()
    }
}
