//! What several of the test programs need.

pub(crate) use rustix::process::Signal;

/// Sends a signal to a process of this test; a bare machine has no `kill` program.
pub(crate) fn send_signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a process number"), signal).unwrap();
}
