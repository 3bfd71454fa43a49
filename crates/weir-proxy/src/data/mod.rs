//! The event loops. Each owns its listeners and connection pairs; forwarding a frame uses no state
//! shared between loops.

mod admission;
mod arrival;
mod arrivals;
mod broker_logins;
mod broker_session;
mod closing;
mod connect;
mod delays;
mod draining;
mod event_loop;
mod events;
mod filter_pool;
mod forward;
mod generation;
mod iteration;
mod login_pool;
mod logins;
mod loop_state;
mod memory;
mod pair;
mod pipe;
mod proxy_loop;
mod reloading;
mod splice;

pub(crate) use self::admission::Admission;
pub(crate) use self::closing::{ClosingByCluster, ClosingCounts};
pub(crate) use self::event_loop::open_loop;
pub(crate) use self::events::{ConnectionInfo, ListenerKey, ListenerTarget, LoopEvent, PairId};
pub(crate) use self::filter_pool::FilterPool;
pub(crate) use self::generation::{CurrentGeneration, Generation};
pub(crate) use self::login_pool::LoginPool;
pub(crate) use self::loop_state::LoopShared;
pub(crate) use self::memory::Memory;
