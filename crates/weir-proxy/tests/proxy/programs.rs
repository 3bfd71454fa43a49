//! Kafka Streams, Connect and MirrorMaker as processes. `WEIR_ECOSYSTEM=1` (`make
//! test-proxy-ecosystem`) runs the tests that take minutes.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use rustix::process::{Pid, Signal, kill_process};
use weir_lab::{KAFKA_VERSION, KafkaTools};

use super::support::*;

/// Returns Kafka's tools and libraries.
pub(crate) fn libraries() -> &'static KafkaTools {
    static LIBRARIES: OnceLock<KafkaTools> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let found = KafkaTools::find_all(KAFKA_VERSION, &mut |_| (), &AtomicBool::new(false));
        found.expect("Kafka's libraries")
    })
}

/// Returns the command of a program in `conformance/kafka-programs`.
pub(crate) fn from_source(name: &str) -> Command {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/kafka-programs");
    libraries().command(&dir.join(name).display().to_string())
}

/// Returns `true` if tests that take minutes run. Otherwise prints that `what` is not tested.
pub(crate) fn takes_minutes(what: &str) -> bool {
    let is_wanted = std::env::var_os("WEIR_ECOSYSTEM").is_some();
    if !is_wanted {
        let line = format!("\nskipped: {what} takes minutes; make test-proxy-ecosystem runs it\n");
        // A closed terminal is not a failure.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    is_wanted
}

/// A running program; killed when dropped.
pub(crate) struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a program in a directory, which gets its output.
    pub(crate) fn start(name: &'static str, mut command: Command, dir: &Path) -> Self {
        let log = dir.join(format!("{}.log", unique(name)));
        let file = File::create(&log).expect("a log file");
        let child = command
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(file.try_clone().expect("a file"))
            .stderr(file)
            .spawn();
        let child = child.expect("starts");
        Self { name, child, log }
    }

    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log file")
    }

    /// Waits until `condition` returns `true`. Panics if the program ends before.
    pub(crate) fn await_that(&mut self, what: &str, mut condition: impl FnMut() -> bool) {
        await_that(&format!("{what} of {}", self.name), || {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "{} ended: {}", self.name, self.output());
            condition()
        });
    }

    /// Sends SIGTERM and waits for the end of the program.
    pub(crate) fn stop(self) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id");
        kill_process(pid, Signal::TERM).expect("a signal");
        self.await_end();
    }

    /// Ends the standard input of the program and waits for its end.
    pub(crate) fn end_of_input(mut self) {
        self.child.stdin = None;
        self.await_end();
    }

    fn await_end(mut self) {
        await_that(&format!("the end of {}", self.name), || {
            self.child.try_wait().expect("a child").is_some()
        });
    }

    /// Ends the program at once, in the middle of what it does.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
