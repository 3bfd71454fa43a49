//! Runs a load worker inside this process, for people instead of a coordinator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use weir_load::worker::protocol::{WorkerCommand, WorkerEvent};
use weir_load::worker::{CoordinatorChannel, EventSender};

/// Runs `work` with a link whose events go to `on_event`, which may send commands back. When `stop`
/// becomes true the worker is asked to stop, once.
pub(crate) fn run<T: Send>(
    stop: &AtomicBool,
    work: impl FnOnce(&CoordinatorChannel) -> T + Send,
    mut on_event: impl FnMut(&WorkerEvent, &SyncSender<WorkerCommand>),
) -> T {
    let (commands, receiver) = mpsc::sync_channel(COMMANDS_QUEUED_MAX);
    let (lines, events) = mpsc::sync_channel(EVENTS_QUEUED_MAX);
    let link = CoordinatorChannel {
        commands: receiver,
        events: EventSender::new(LineChannel(lines)),
    };
    thread::scope(|scope| {
        // The link moves into the thread: the channel of events closes when the work is done.
        let worker = scope.spawn(move || work(&link));
        let mut asked_to_stop = false;
        loop {
            match events.recv_timeout(LOOK) {
                Ok(line) => match serde_json::from_slice(&line) {
                    Ok(event) => on_event(&event, &commands),
                    Err(error) => tracing::error!(%error, "event not understood"),
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !asked_to_stop && stop.load(Ordering::Relaxed) {
                asked_to_stop = true;
                // A worker that is gone needs no stop.
                let _ = commands.send(WorkerCommand::Stop);
            }
        }
        // Invariant: a panic of the worker is a bug, and ends this process as well.
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Hands each line that is written to a channel.
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

const LOOK: Duration = Duration::from_millis(100);
const COMMANDS_QUEUED_MAX: usize = 16;
const EVENTS_QUEUED_MAX: usize = 1024;
