//! The event loops. Each owns its listeners and connection pairs; forwarding a frame uses no state
//! shared between loops.

mod accept;
mod connect;
mod counters;
mod delayed;
mod event_loop;
mod events;
mod filter_pool;
mod forward;
mod holding;
mod iteration;
mod loop_state;
mod memory;
mod pair;
mod pipe;
mod send_buffer;
mod splice;
mod stream;

pub(crate) use self::accept::Admission;
pub(crate) use self::counters::{LoopMetrics, METRICS};
pub(crate) use self::event_loop::{EventLoop, LoopOptions};
pub use self::events::ConnectionInfo;
pub(crate) use self::events::{ListenerTarget, LoopEvent, PairId};
pub(crate) use self::filter_pool::FilterPool;
pub(crate) use self::loop_state::LoopCluster;
pub(crate) use self::memory::Memory;
