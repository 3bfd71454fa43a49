//! Real brokers: one cluster of one node, one of three, and what is left of them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_lab::{Lab, LabOptions};

fn process_exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/stat")).exists()
}

#[test]
fn one_broker_up_and_down() {
    let stop = AtomicBool::new(false);
    let mut lines = Vec::new();
    let options = LabOptions {
        heap_mb: 384,
        ..LabOptions::default()
    };
    let lab = Lab::up(&options, &mut |line| lines.push(line.to_owned()), &stop).unwrap();
    let dir = lab.dir().to_owned();
    let pid = lab.brokers()[0].pid;
    assert!(process_exists(pid));
    assert!(lab.bootstrap().starts_with("127.0.0.1:"));
    assert!(lab.max_clients_hint() > 0);
    assert!(lines.iter().any(|line| line.contains("starting 1 broker")));
    lab.down().unwrap();
    assert!(!process_exists(pid));
    assert!(!dir.exists());
}
