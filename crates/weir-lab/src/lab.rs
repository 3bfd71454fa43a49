//! A Kafka cluster on this machine: starting it, restarting its brokers, stopping it.

mod cluster;
mod existing;
mod options;
mod start;

use std::sync::atomic::AtomicBool;

pub use cluster::{Broker, Lab};
pub use options::LabOptions;

use crate::error::LabError;

impl Lab {
    /// Starts a lab and waits until all its brokers are ready, or attaches to a running one.
    ///
    /// A lab that is running in the directory is used if it has the same options. `progress`
    /// receives a line before each operation that takes time. When `stop` becomes `true`, or after
    /// an error, all started processes are stopped.
    pub fn up(
        options: &LabOptions,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self, LabError> {
        start::up(options, progress, stop)
    }

    /// Restarts a stopped broker with its port and data, and waits until it is ready.
    pub fn start_broker(&mut self, node_id: i32, stop: &AtomicBool) -> Result<(), LabError> {
        let index = self.index(node_id)?;
        if self.processes[index].is_some() {
            return Ok(());
        }
        self.processes[index] = Some(self.launch.spawn(node_id, &self.state)?);
        self.update_process(index)?;
        let ready = start::wait_ready(self, &mut |_| (), stop);
        if ready.is_err() {
            self.stop_broker(node_id)?;
        } else if self.state.detached {
            self.release();
        }
        ready
    }
}
