//! The limits that admission enforces, and the limits per address.

use serde::Deserialize;

use crate::bounds::rate;

/// `[limits.per_address]`: limits of one address; 0 means no limit. An IPv6 address counts by its
/// first 64 bits, because one network has all addresses below them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PerAddress {
    /// Connections, with or without sessions.
    pub connections: u32,
    /// Sessions.
    pub sessions: u32,
    /// New sessions per second.
    #[serde(deserialize_with = "rate")]
    pub sessions_per_second: f32,
    /// Requests per second: HTTP requests, the control requests in them, WebSocket messages and
    /// other WebSocket frames.
    #[serde(deserialize_with = "rate")]
    pub requests_per_second: f32,
    /// Estimated memory of the subscriptions of its sessions; default 0: half of the gateway's
    /// limit.
    pub subscription_bytes: usize,
}

impl PerAddress {
    /// Returns `true` if nothing is limited, so that addresses need not be counted.
    pub(super) fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

macro_rules! limits {
    ($($name:ident = $label:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum AdmissionLimit { $($name),* }

        impl AdmissionLimit {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the metric's label, which is the key of the configuration.
            pub(crate) const fn label(self) -> &'static str {
                match self { $(Self::$name => $label),* }
            }
        }
    };
}

limits! {
    Origin = "allowed_origins";
    Sessions = "sessions";
    SessionRate = "sessions_per_second";
    RequestRate = "requests_per_second";
    Subscriptions = "subscriptions";
    Items = "items";
    SubscriptionBytes = "subscription_bytes";
    Memory = "memory_bytes";
    SessionSubscriptions = "subscriptions_per_session";
    SessionItems = "items_per_session";
    SubscriptionItems = "items_per_subscription";
    SubscriptionFields = "fields_per_subscription";
    FrameClasses = "frame_classes_per_item";
    RecordClasses = "record_classes_per_item";
    AddressConnections = "per_address.connections";
    AddressSessions = "per_address.sessions";
    AddressSessionRate = "per_address.sessions_per_second";
    AddressRequestRate = "per_address.requests_per_second";
    AddressSubscriptionBytes = "per_address.subscription_bytes";
}

/// Identifies the address of a client while it has a connection or a session; 0 if addresses are
/// not limited.
pub(crate) type AdmissionId = u32;
