//! Runs a load worker inside this process, for interactive use without a coordinator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use weir_load::worker::protocol::{WorkerCommand, WorkerEvent};
use weir_load::worker::{CoordinatorChannel, EventSender};

/// Runs `work` on a thread and passes its events to `on_event`, which may return a command for it.
///
/// When `stop` becomes `true`, the worker receives one [`WorkerCommand::Stop`].
pub(crate) fn run<T: Send>(
    stop: &AtomicBool,
    work: impl FnOnce(&CoordinatorChannel) -> T + Send,
    mut on_event: impl FnMut(&WorkerEvent) -> Option<WorkerCommand>,
) -> T {
    let (commands, receiver) = mpsc::sync_channel(COMMANDS_QUEUED_MAX);
    let (lines, events) = mpsc::sync_channel(EVENTS_QUEUED_MAX);
    let link = CoordinatorChannel {
        commands: receiver,
        events: EventSender::new(LineChannel(lines)),
    };
    thread::scope(|scope| {
        // The link moves into the thread, so the event channel closes when the work is done.
        let worker = scope.spawn(move || work(&link));
        let mut stop_sent = false;
        loop {
            match events.recv_timeout(STOP_POLL_INTERVAL) {
                Ok(line) => match serde_json::from_slice(&line) {
                    // Sending fails only if the worker has ended; its result contains the error.
                    Ok(event) => drop(on_event(&event).map(|command| commands.send(command))),
                    Err(error) => tracing::error!(%error, "worker event not decoded"),
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !stop_sent && stop.load(Ordering::Relaxed) {
                stop_sent = true;
                let _ = commands.send(WorkerCommand::Stop);
            }
        }
        // Invariant: a panic of the worker is a bug and also ends this process.
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

struct LineChannel(SyncSender<Vec<u8>>);

impl std::io::Write for LineChannel {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let sent = self.0.send(line.to_vec());
        sent.map_err(|_| std::io::ErrorKind::BrokenPipe)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Interval at which `stop` is read while no event arrives.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);
const COMMANDS_QUEUED_MAX: usize = 16;
const EVENTS_QUEUED_MAX: usize = 1024;
