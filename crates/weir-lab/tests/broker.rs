//! Labs with real brokers: one node, three nodes, and recovery after a killed broker.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use weir_lab::{Lab, LabError, LabOptions};

/// Small heap and long timeout, because tests share the machine.
fn options() -> LabOptions {
    LabOptions {
        heap_mb: 256,
        ready_timeout: Duration::from_secs(180),
        // Halves the start-up time; these brokers have no load.
        jvm_arguments: vec!["-XX:TieredStopAtLevel=1".to_owned()],
        ..LabOptions::default()
    }
}

fn up(options: &LabOptions) -> (Lab, Vec<String>) {
    let mut lines = Vec::new();
    let stop = AtomicBool::new(false);
    let lab = Lab::up(options, &mut |line| lines.push(line.to_owned()), &stop).unwrap();
    (lab, lines)
}

fn process_exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/stat")).exists()
}

fn kill(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn temporary_lab_is_removed_by_down() {
    let (mut lab, lines) = up(&options());
    let dir = lab.dir().to_owned();
    let pid = lab.brokers()[0].pid;
    assert!(process_exists(pid));
    assert_eq!(
        lab.bootstrap(),
        format!("127.0.0.1:{}", lab.brokers()[0].port)
    );
    assert!(lab.max_clients_hint() > 0);
    assert!(lab.is_running());
    assert!(
        lines.iter().any(|line| line.contains("starting 1 broker")),
        "{lines:?}"
    );

    let status = weir_lab::status(Some(&dir)).unwrap();
    assert!(status.is_running(), "{status:?}");
    lab.down().unwrap();
    assert!(!process_exists(pid));
    assert!(!dir.exists());
}

#[test]
fn broker_of_three_is_restarted() {
    let (mut lab, _) = up(&LabOptions {
        brokers: 3,
        ..options()
    });
    let ids: Vec<_> = lab.brokers().iter().map(|broker| broker.node_id).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(lab.bootstrap().split(',').count(), 3);
    let before = lab.brokers()[1];

    lab.stop_broker(2).unwrap();
    assert!(!process_exists(before.pid));
    assert_eq!(lab.brokers()[1].pid, 0);
    let status = weir_lab::status(Some(lab.dir())).unwrap();
    assert_eq!(status.state, "incomplete");
    assert_eq!(status.brokers[1].pid, None);

    lab.start_broker(2, &AtomicBool::new(false)).unwrap();
    let after = lab.brokers()[1];
    assert_ne!(after.pid, before.pid);
    assert_eq!(after.port, before.port);
    assert!(weir_lab::status(Some(lab.dir())).unwrap().is_running());

    let missing = lab.stop_broker(4).unwrap_err();
    assert!(matches!(missing, LabError::NoSuchBroker(4)));
    let pids: Vec<_> = lab.brokers().iter().map(|broker| broker.pid).collect();
    let dir = lab.dir().to_owned();
    drop(lab);
    assert!(
        !pids.into_iter().any(process_exists),
        "brokers must end with the dropped lab"
    );
    assert!(!dir.exists());
}

#[test]
fn killed_broker_is_detected_and_cleaned_up() {
    let scratch = tempfile::tempdir().unwrap();
    let options = LabOptions {
        dir: Some(scratch.path().join("lab")),
        detached: true,
        ..options()
    };
    let dir = options.dir.as_deref();
    let (first, _) = up(&options);
    let pid = first.brokers()[0].pid;
    drop(first);
    assert!(
        process_exists(pid),
        "a detached broker must outlive its lab value"
    );

    let (second, _) = up(&options);
    assert!(second.was_running());
    assert_eq!(second.brokers()[0].pid, pid);
    drop(second);

    kill(pid);
    // A killed process stops responding shortly before it ends.
    eventually("status reports the killed broker", || {
        weir_lab::status(dir).unwrap().brokers[0].pid.is_none()
    });
    let status = weir_lab::status(dir).unwrap();
    assert_eq!(status.state, "incomplete");
    assert!(
        status.brokers[0].problem.starts_with("exited"),
        "{status:?}"
    );

    let (third, lines) = up(&options);
    assert!(!third.was_running());
    assert!(
        lines
            .iter()
            .any(|line| line.contains("not shut down cleanly")),
        "{lines:?}"
    );
    let report = weir_lab::down(dir, true, &mut |_| ()).unwrap();
    assert_eq!(report.stopped, [1]);
    assert!(!report.data_removed);
    drop(third);

    // The next start uses the stored data; another number of brokers is rejected.
    assert_eq!(weir_lab::status(dir).unwrap().state, "stopped");
    let other = LabOptions {
        brokers: 2,
        ..options.clone()
    };
    let error = Lab::up(&other, &mut |_| (), &AtomicBool::new(false)).unwrap_err();
    assert!(
        error.to_string().contains("contains data of 1 broker"),
        "{error}"
    );
    let marker = scratch.path().join("lab/node-1/data/marker");
    std::fs::write(&marker, "").unwrap();
    let (fourth, _) = up(&options);
    assert!(marker.exists());
    fourth.down().unwrap();
    assert!(!scratch.path().join("lab").exists());
}
