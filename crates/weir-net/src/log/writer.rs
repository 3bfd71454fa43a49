//! Log output: a bounded queue of lines, and a thread that writes them. Only that thread waits when
//! the output is slow.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::recent::keep;

const LINES_MAX: usize = 4_096;
/// Maximum number of bytes of one line; longer ones are truncated.
const LINE_BYTES_MAX: usize = 8 * 1024;

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Writer of whole lines that never waits for the output; clones share the queue. Lines that find
/// the queue full are dropped and counted. A line with their number follows when the output
/// recovers.
#[derive(Debug, Clone)]
pub struct LogWriter {
    queue: Sender<LogEntry>,
}

#[derive(Debug)]
enum LogEntry {
    Line(Vec<u8>),
    /// Request for a message when all lines before it are written.
    Flush(Sender<()>),
}

impl LogWriter {
    /// Starts the thread that writes to `output` until the last clone is dropped.
    pub fn start(output: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, entries) = bounded(LINES_MAX);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_all(output, &entries))?;
        Ok(Self { queue })
    }

    /// Waits up to `timeout` until all queued lines are written. Returns `true` if they are.
    pub fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let (done, is_done) = bounded(1);
        let sent = self.queue.send_deadline(LogEntry::Flush(done), deadline);
        sent.is_ok() && is_done.recv_deadline(deadline).is_ok()
    }
}

impl Write for LogWriter {
    /// Queues or drops one line. Never fails and never waits.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.queue.try_send(LogEntry::Line(bounded_line(line))) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    /// Does nothing, see [`LogWriter::flush`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the number of lines dropped since the process started because the output was slow.
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

fn bounded_line(line: &[u8]) -> Vec<u8> {
    if line.len() <= LINE_BYTES_MAX {
        return line.to_vec();
    }
    let mut truncated = String::from_utf8_lossy(&line[..LINE_BYTES_MAX]).into_owned();
    truncated.push_str("...\n");
    truncated.into_bytes()
}

fn write_all(mut output: impl Write, entries: &Receiver<LogEntry>) {
    let mut reported = 0;
    for entry in entries {
        // If the output fails, there is no other place to report it.
        let _ = match entry {
            LogEntry::Line(line) => {
                keep(&line);
                output.write_all(&line)
            }
            LogEntry::Flush(done) => {
                report_dropped(&mut output, &mut reported);
                let flushed = output.flush();
                let _ = done.try_send(());
                flushed
            }
        };
        if entries.is_empty() {
            report_dropped(&mut output, &mut reported);
        }
    }
}

fn report_dropped(output: &mut impl Write, reported: &mut u64) {
    let dropped = dropped_lines();
    let count = dropped - *reported;
    if count > 0 {
        *reported = dropped;
        let line = format!("weir: {count} log lines dropped: log output too slow\n");
        let _ = output.write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// An output that blocks until it is released.
    struct BlockedOutput {
        release: Receiver<()>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for BlockedOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Released for good when the sender is dropped.
            let _ = self.release.recv();
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn blocked_output_drops_lines_without_blocking_writers() {
        let (stall, release) = bounded::<()>(0);
        let (written, output) = mpsc::channel();
        let mut writer = LogWriter::start(BlockedOutput { release, written }).unwrap();
        let before = dropped_lines();
        let many = 2 * LINES_MAX;
        // Would never end if a write waited for the output.
        for number in 0..many {
            writer.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        let dropped = dropped_lines() - before;
        assert!(dropped as usize >= many - LINES_MAX - 1, "{dropped}");
        assert!(
            !writer.flush(Duration::ZERO),
            "flush before any line is written"
        );
        drop(stall);
        assert!(writer.flush(Duration::from_secs(60)));
        let lines: Vec<_> = output.try_iter().collect();
        assert_eq!(lines[0], b"0\n");
        assert_eq!(
            lines[LINES_MAX - 1],
            format!("{}\n", LINES_MAX - 1).as_bytes()
        );
        let last = String::from_utf8(lines.last().unwrap().clone()).unwrap();
        assert_eq!(
            last,
            format!(
                "weir: {} log lines dropped: log output too slow\n",
                before + dropped
            )
        );
    }

    #[test]
    fn long_line_is_truncated() {
        let line = bounded_line("\u{e4}".repeat(LINE_BYTES_MAX).as_bytes());
        assert!(line.len() <= LINE_BYTES_MAX + 4 && line.ends_with(b"...\n"));
        assert_eq!(bounded_line(b"short\n"), b"short\n");
    }
}
