use std::time::Duration;

use super::protocol::{
    FloorSummary, LatencyInterval, LatencyTag, LedgerEntry, ProduceSummary, Quantiles,
    ReportSamples, Schedule, Summary, WorkerProgress,
};
use super::*;
use crate::delivery::{DeliveryCounts, DeliverySummary};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

fn schedule() -> Schedule {
    Schedule {
        start_unix_ns: 1_700_000_000_000_000_001,
        measure_from_unix_ns: 1_700_000_001_000_000_000,
        measure_until_unix_ns: 1_700_000_002_000_000_000,
        stop_unix_ns: u64::MAX,
    }
}

fn entry() -> LedgerEntry {
    LedgerEntry {
        key: "Apple".to_owned(),
        producer: 0,
        first_seq: 10,
        last_seq: 52,
        missing: vec![11],
        last_due_unix_ns: 1_700_000_001_900_000_000,
    }
}

#[test]
fn commands_round_trip() {
    let commands = [
        WorkerCommand::Start(schedule()),
        WorkerCommand::Ledger {
            entries: vec![entry()],
        },
        WorkerCommand::Stop,
    ];
    for command in commands {
        let line = serde_json::to_string(&command).expect("serializable");
        assert_eq!(
            serde_json::from_str::<WorkerCommand>(&line).expect("readable"),
            command
        );
    }
}

#[test]
fn events_round_trip() {
    let mut delivery = DeliverySummary::default();
    delivery.add_client(&DeliveryCounts::default(), Some(1_500_000));
    delivery.errors.insert("connection refused".to_owned(), 1);
    let summaries = [
        Summary::Produce(ProduceSummary {
            ledger: vec![entry()],
            schedule_lag: Quantiles {
                count: 3,
                ..Quantiles::default()
            },
            ..ProduceSummary::default()
        }),
        Summary::Delivery(delivery),
        Summary::Floor(FloorSummary::default()),
    ];
    let events = [
        WorkerEvent::Hello {
            role: WorkerRole::FloorClients,
            version: "0.1.0".to_owned(),
            pid: 1,
        },
        WorkerEvent::Ready {
            connections: 50,
            port: Some(8080),
        },
        WorkerEvent::Progress(WorkerProgress {
            unix_ns: 5,
            counters: [("acked".to_owned(), 7)].into(),
            p50_us: Some(1),
            p99_us: Some(2),
            second: None,
        }),
        WorkerEvent::Interval(LatencyInterval {
            from_unix_ns: 1,
            until_unix_ns: 2,
            tag: LatencyTag::ScheduleLag,
            histogram: "aGk=".to_owned(),
        }),
        WorkerEvent::Report {
            text: "\n\nMin = 4 ms".to_owned(),
        },
        WorkerEvent::ReportSamples(ReportSamples {
            latencies_ms: vec![(4, 1)],
            below: 2,
            above: 3,
        }),
        WorkerEvent::Error {
            message: "broker \"x\" not reachable".to_owned(),
            fault: None,
        },
    ];
    let finals = summaries.map(|summary| WorkerEvent::Final { summary });
    for event in events.into_iter().chain(finals) {
        let line = serde_json::to_string(&event).expect("serializable");
        assert!(!line.contains('\n'));
        assert_eq!(
            serde_json::from_str::<WorkerEvent>(&line).expect("readable"),
            event
        );
    }
}

#[test]
fn lines_match_the_documentation() {
    let start = r#"{"cmd":"start","start_unix_ns":1,"measure_from_unix_ns":2,"#.to_owned()
        + r#""measure_until_unix_ns":3,"stop_unix_ns":4}"#;
    let Ok(WorkerCommand::Start(schedule)) = serde_json::from_str(&start) else {
        panic!("not parsed: {start}");
    };
    assert!(!schedule.in_window(1) && schedule.in_window(2) && !schedule.in_window(3));
    let ledger =
        r#"{"cmd":"ledger","entries":[{"key":"Apple","producer":0,"first_seq":10,"last_seq":52}]}"#;
    assert!(serde_json::from_str::<WorkerCommand>(ledger).is_ok());
    let ready = WorkerEvent::Ready {
        connections: 3,
        port: None,
    };
    let ready = serde_json::to_string(&ready).expect("serializable");
    assert_eq!(ready, r#"{"event":"ready","connections":3}"#);
}

#[test]
fn end_of_input_is_a_stop() {
    let input = io::Cursor::new("{\"cmd\":\"ledger\",\"entries\":[]}\n\n");
    let link = CoordinatorChannel::over(input, io::sink());
    let next = || link.commands.recv_timeout(TEST_TIMEOUT);
    assert_eq!(next(), Ok(WorkerCommand::Ledger { entries: vec![] }));
    assert_eq!(next(), Ok(WorkerCommand::Stop));
    assert!(next().is_err());
}

#[test]
fn invalid_command_is_reported_and_stops() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let link = CoordinatorChannel::over(
        io::Cursor::new("{\"cmd\":\"fly\"}\n"),
        SharedOutput(written.clone()),
    );
    assert_eq!(
        link.commands.recv_timeout(TEST_TIMEOUT),
        Ok(WorkerCommand::Stop)
    );
    let written = written.lock().expect("not poisoned");
    let text = String::from_utf8_lossy(&written);
    assert!(
        text.contains("invalid command") && text.contains("fly"),
        "{text}"
    );
}

struct SharedOutput(Arc<Mutex<Vec<u8>>>);

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
