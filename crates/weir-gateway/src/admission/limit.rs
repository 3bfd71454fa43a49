//! The limits that admission enforces, and what one address may have.

use serde::Deserialize;

/// `[limits.per_address]`: what one address may have; 0 is no limit. An IPv6 address counts by its
/// first 64 bits: who has one of them has all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PerAddress {
    /// Connections, sessions or not.
    pub connections: u32,
    /// Sessions.
    pub sessions: u32,
    /// New sessions a second.
    pub sessions_per_second: f32,
    /// Requests a second: HTTP requests, control requests in them, WebSocket messages and other
    /// WebSocket frames.
    pub requests_per_second: f32,
    /// Estimated memory of the subscriptions of its sessions; default 0: half of what all may have.
    pub subscription_bytes: usize,
}

impl PerAddress {
    /// Whether nothing is limited, so that nobody needs to be counted.
    pub(super) fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

macro_rules! limits {
    ($($name:ident = $label:literal;)*) => {
        /// A limit that was met.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum AdmissionLimit { $($name),* }

        impl AdmissionLimit {
            /// All of them, in the order of their declaration.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The metric's label, the key of the configuration.
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
    AddressConnections = "per_address.connections";
    AddressSessions = "per_address.sessions";
    AddressSessionRate = "per_address.sessions_per_second";
    AddressRequestRate = "per_address.requests_per_second";
    AddressSubscriptionBytes = "per_address.subscription_bytes";
}

/// Names the address of a client as long as it has a connection or a session; 0 where addresses do not
/// matter.
pub(crate) type AdmissionId = u32;
