//! Connection to one remote Metadata Adapter: requests with deadlines, replies in any order,
//! notifications, reconnection.
//!
//! [`AdapterProtocol`] is a state machine without sockets and clocks. [`AdapterServer`] gives it a
//! socket and a thread. Other threads send requests with an [`AdapterHandle`], which never waits,
//! and get the outcome through an [`AdapterSink`].

mod client_head;
mod config;
mod credentials;
pub mod decision;
mod event_loop;
mod lanes;
mod metrics;
mod outcome;
mod port;
mod protocol;
mod server;
mod sessions;
mod sink;

pub use client_head::ClientHead;
pub use config::{
    AdapterConfig, AdapterConfigError, AdapterDirection, AdapterTls, CloseRecovery,
    RawAdapterConfig, RawAdapterUser, UnavailablePolicy,
};
pub use credentials::AdapterUser;
pub use lanes::MessageLanes;
pub use metrics::{AdapterMetrics, LatencySnapshot, MethodSnapshot, RequestOutcome};
pub use outcome::{AdapterFailure, AdapterOutcome};
pub use port::AdapterPort;
pub use protocol::{
    AdapterProtocol, NotificationTicket, ProtocolAction, ProtocolOptions, WhileDown,
};
pub use server::{AdapterError, AdapterHandle, AdapterServer, ServerOptions};
pub use sessions::{OpenSession, SessionTable};
pub use sink::AdapterSink;
