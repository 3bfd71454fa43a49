//! The session: every command, and its records on the broker.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_drivers::{
    AssignmentMode, Burst, CAPABILITIES, ClientSettings, Configure, Consume, Driver, DriverFailure,
    DriverProgram, Gc, GetStats, ProduceCommand, ProducerState, RoundTrip, Steady, TopicEnd,
    WarmUp,
};

use crate::test_env::{LIMIT, SHORT, Stored, TestEnv, key, ticks, value};

/// One driver from `hello` to `bye`.
pub(crate) fn passes(env: &TestEnv<'_>, program: &DriverProgram) {
    let dir = env.broker.scratch.path().join(&program.name);
    fs::create_dir_all(&dir).expect("a dir");
    let driver = Driver::start(program, &dir, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let mut session = ScriptedSession { env, driver };
    session.says_hello();
    session.is_configured();
    session.warms_up();
    session.produces();
    session.consumes();
    session.verifies();
    session.goes_round_as_burst();
    session.goes_round_at_a_rate();
    session.is_steady();
    session.ends_the_wait_for_company();
    session.times_out_without_records();
    session.rests();
    session
        .driver
        .bye()
        .unwrap_or_else(|error| panic!("{error}"));
}

struct ScriptedSession<'a> {
    env: &'a TestEnv<'a>,
    driver: Driver,
}

/// All settings of the fair comparison.
pub(crate) fn settings() -> ClientSettings {
    let settings = json!({
        "acks": 1, "linger_ms": 5, "batch_bytes": 1_000_000, "batch_records": 0, "max_in_flight": 5,
        "retries": 0, "idempotence": false, "compression": "none", "queue_bytes": 64 << 20,
        "queue_records": 100_000, "max_request_bytes": 1 << 20, "send_buffer_bytes": 0,
        "receive_buffer_bytes": 0, "fetch_min_bytes": 1, "fetch_wait_ms": 500,
        "fetch_partition_bytes": 1 << 20, "check_crcs": true, "auto_commit": false,
        "auto_commit_ms": 1000,
    });
    serde_json::from_value(settings).expect("an object")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "truth",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn burst(topic: &str, len: u64, count: u64, seed: u64) -> Burst {
    Burst {
        topic: topic.to_owned(),
        len,
        count,
        seed,
    }
}

/// Libraries whose flush waits as long as batches do (decision 0038).
const FLUSH_LINGERS: [&str; 1] = ["aiokafka"];
/// The largest seed that the numbers of all languages can represent.
const SEED_MAX: u64 = (1 << 53) - 1;

/// Primers and other records.
fn apart(found: Vec<Stored>) -> (Vec<Stored>, Vec<Stored>) {
    found.into_iter().partition(Stored::is_primer)
}

/// Executes a command that must succeed.
macro_rules! done {
    ($answer:expr) => {
        $answer.unwrap_or_else(|error| panic!("{error}"))
    };
}

impl ScriptedSession<'_> {
    fn topic(&self, purpose: &str) -> String {
        self.env.topic(self.driver.name(), purpose)
    }

    fn says_hello(&mut self) {
        let hello = self.driver.hello();
        assert!(!hello.runtime.is_empty(), "{hello:?}");
        assert!(!hello.capabilities.is_empty(), "{hello:?}");
        for capability in &hello.capabilities {
            assert!(CAPABILITIES.contains(&capability.as_str()), "{capability}");
        }
        done!(self.driver.run(&Gc {}, LIMIT));
        let stats = done!(self.driver.run(&GetStats {}, LIMIT));
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.driver.pid())).expect("it runs");
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let rss = rss
            .and_then(|rest| rest.split_ascii_whitespace().next())
            .expect("memory");
        let rss: u64 = rss.parse().expect("a number");
        assert!(
            (rss / 2..=rss * 2).contains(&stats.rss_kb),
            "{stats:?}, the system says {rss}"
        );
        assert!(stats.threads >= 1, "{stats:?}");
    }

    fn requested(&self) -> Configure {
        Configure {
            bootstrap: self.env.broker.bootstrap.clone(),
            profile: "conformance".to_owned(),
            settings: settings(),
        }
    }

    fn is_configured(&mut self) {
        let mut requested = self.requested();
        requested
            .settings
            .insert("no_such_setting".to_owned(), json!(1));
        let answer = done!(self.driver.run(&requested, LIMIT));
        assert!(
            answer.unsupported.contains(&"no_such_setting".to_owned()),
            "{answer:?}"
        );
        assert!(
            !answer.unsupported.contains(&"acks".to_owned()),
            "{answer:?}"
        );
        for (name, value) in &requested.settings {
            let effective = &answer.effective[name];
            if !answer.unsupported.contains(name) {
                assert_eq!(kind(effective), kind(value), "{name}: {effective}");
            }
        }
        assert_eq!(answer.effective["acks"], 1);
        for name in &answer.unsupported {
            assert!(
                requested.settings.contains_key(name),
                "{name} was not requested for"
            );
        }
        requested.settings.remove("no_such_setting");
        done!(self.driver.run(&requested, LIMIT));
    }

    fn warms_up(&mut self) {
        let requested = WarmUp(burst(&self.topic("warm-up"), 100, 1000, 3));
        let cost = done!(self.driver.run(&requested, LIMIT));
        assert!(cost.produce_cpu_us_per_record > 0.0, "{cost:?}");
        // Again, with the records of the first one in the topic.
        done!(self.driver.run(&requested, LIMIT));
        let (primers, records) = apart(self.env.read(&requested.0.topic));
        assert_eq!(records.len(), 2000);
        assert!((1..=2).contains(&primers.len()), "{primers:?}");
    }

    fn produces(&mut self) {
        let states = [
            (ProducerState::Cold, "produce.cold"),
            (ProducerState::Metadata, "produce.metadata"),
            (ProducerState::Warm, "produce.warm"),
        ];
        for (state, capability) in states {
            if !self.driver.can(capability) {
                continue;
            }
            let topic = self.topic(&capability.replace('.', "-"));
            // The second command uses the same producer; a large value does not fit into a batch
            // with others.
            for (seed, len, count) in [(SEED_MAX, 100, 25), (7, 300_000, 4)] {
                let requested = ProduceCommand {
                    burst: burst(&topic, len, count, seed),
                    state,
                    per_record: seed == 7,
                };
                let answer = done!(self.driver.run(&requested, LIMIT));
                assert_eq!(
                    (answer.delivered.acked, answer.delivered.failed),
                    (count, 0),
                    "{answer:?}"
                );
                assert!(
                    answer.cpu_us > 0.0 || state != ProducerState::Cold,
                    "{answer:?}"
                );
            }
            let found = self.env.read(&topic);
            let offsets = found.iter().map(|record| record.offset);
            assert!(offsets.eq(0..found.len() as i64), "{capability}: {found:?}");
            assert_eq!(
                found[0].is_primer(),
                state == ProducerState::Warm,
                "{capability}"
            );
            let (primers, bursts) = apart(found);
            let most = if state == ProducerState::Warm { 2 } else { 0 };
            assert!(primers.len() <= most, "{capability}: {primers:?}");
            assert_eq!(bursts.len(), 29, "{capability}");
            let expected = (0..25).map(|ordinal| (ordinal, value(SEED_MAX, 100)));
            let expected = expected.chain((0..4).map(|ordinal| (ordinal, value(7, 300_000))));
            for (record, (ordinal, value)) in bursts.iter().zip(expected) {
                assert_eq!(record.number(), ordinal, "{capability}");
                assert!(
                    record.value.as_ref() == Some(&value),
                    "{capability}: record {ordinal} has another value"
                );
            }
        }
    }

    fn vias(&self) -> Vec<AssignmentMode> {
        let vias = [
            (AssignmentMode::Group, "consume.group"),
            (AssignmentMode::Assign, "consume.assign"),
        ];
        let able = vias
            .into_iter()
            .filter(|(_, capability)| self.driver.can(capability));
        able.map(|(via, _)| via).collect()
    }

    fn consumes(&mut self) {
        let topic = self.topic("consume");
        let primer = || (key(-1), Some(vec![0]));
        let record = |ordinal| (key(ordinal), Some(value(5, 50)));
        let mut records = vec![primer()];
        records.extend((0..10).map(record));
        records.push(primer());
        records.extend((10..20).map(record));
        self.env.write(&topic, &records);
        for via in self.vias() {
            let requested = Consume {
                burst: burst(&topic, 50, 20, 5),
                via,
                verify: true,
                commit: via == AssignmentMode::Group,
            };
            let answer = done!(self.driver.run(&requested, LIMIT));
            assert_eq!(
                (answer.got, answer.bytes, answer.bad),
                (20, 20 * 58, 0),
                "{via:?}"
            );
            let part = Consume {
                burst: burst(&topic, 50, 7, 6),
                verify: false,
                commit: false,
                ..requested
            };
            let answer = done!(self.driver.run(&part, LIMIT));
            assert_eq!(
                (answer.got, answer.bytes, answer.bad),
                (7, 7 * 58, 0),
                "{via:?}"
            );
        }
    }

    fn verifies(&mut self) {
        let topic = self.topic("verify");
        let right = value(5, 50);
        let mut wrong = right.clone();
        wrong[49] ^= 1;
        let records = [
            (key(0), Some(right.clone())),
            (key(2), Some(right.clone())),
            (key(2), Some(wrong)),
            (key(3), Some(value(5, 49))),
            (key(4), None),
            (None, Some(right.clone())),
            (key(6), Some(right)),
        ];
        self.env.write(&topic, &records);
        for via in self.vias() {
            let requested = Consume {
                burst: burst(&topic, 50, 7, 5),
                via,
                verify: true,
                commit: false,
            };
            let answer = done!(self.driver.run(&requested, LIMIT));
            assert_eq!((answer.got, answer.bad), (7, 5), "{via:?}, verified");
            let unverified = Consume {
                verify: false,
                ..requested.clone()
            };
            let answer = done!(self.driver.run(&unverified, LIMIT));
            assert_eq!((answer.got, answer.bad), (7, 4), "{via:?}, not verified");
            let other_seed = Consume {
                burst: burst(&topic, 50, 7, 6),
                ..requested
            };
            let answer = done!(self.driver.run(&other_seed, LIMIT));
            assert_eq!(answer.bad, 7, "{via:?}, another seed");
        }
    }

    fn goes_round_as_burst(&mut self) {
        if !self.driver.can("roundtrip.burst") {
            return;
        }
        let requested = RoundTrip {
            burst: burst(&self.topic("burst"), 100, 300, 9),
            rate: 0.0,
        };
        let answer = done!(self.driver.run(&requested, LIMIT));
        assert_eq!(
            (answer.delivered.acked, answer.got, answer.delivered.failed),
            (300, 300, 0),
            "{answer:?}"
        );
        assert_eq!(answer.latency.count, 300);
        self.instants_ascend(&requested);
    }

    fn goes_round_at_a_rate(&mut self) {
        if !self.driver.can("roundtrip.open") {
            return;
        }
        let requested = RoundTrip {
            burst: burst(&self.topic("open"), 10, 101, 9),
            rate: 200.0,
        };
        let answer = done!(self.driver.run(&requested, LIMIT));
        assert_eq!(
            (answer.delivered.acked, answer.got, answer.pacing.count),
            (101, 101, 101),
            "{answer:?}"
        );
        // The last record is due half a second after the first; records are never sent early.
        assert!(
            answer.marks.t1 - answer.marks.t0 >= 500_000_000,
            "{:?}",
            answer.marks
        );
        let due = self.instants_ascend(&requested);
        for (place, due_ns) in due.iter().enumerate() {
            let expected = due[0] + place as i64 * 5_000_000;
            assert!(
                (due_ns - expected).abs() <= 1000,
                "record {place} was due at {due_ns}, not {expected}"
            );
        }
    }

    /// Returns the times that are the keys of a roundtrip's records.
    fn instants_ascend(&self, requested: &RoundTrip) -> Vec<i64> {
        let found = self.env.read(&requested.burst.topic);
        let (primer, records) = found.split_first().expect("a primer");
        assert!(primer.is_primer(), "{primer:?}");
        assert_eq!(records.len() as u64, requested.burst.count);
        let expected = value(
            requested.burst.seed,
            usize::try_from(requested.burst.len).expect("small"),
        );
        assert!(
            records
                .iter()
                .all(|record| record.value.as_ref() == Some(&expected))
        );
        let due: Vec<i64> = records.iter().map(Stored::number).collect();
        assert!(due.is_sorted() && due[0] >= 0, "{due:?}");
        due
    }

    fn is_steady(&mut self) {
        if !self.driver.can("steady.produce") {
            return;
        }
        let mut requested = Steady {
            topic: self.topic("steady"),
            len: 20,
            seed: 2,
            role: TopicEnd::Produce,
            rate: 150.0,
            seconds: 2,
        };
        let mut reported = 0;
        let done = done!(
            self.driver
                .run_with(&requested, LIMIT, &mut |_| reported += 1)
        );
        assert_eq!((done.records, done.bytes, done.failed), (300, 300 * 28, 0));
        assert_eq!(reported, 2);
        let found = self.env.read(&requested.topic);
        assert_eq!(found.len(), 301);
        assert!(
            found[0].is_primer() && !found[1].is_primer(),
            "{:?}",
            found[0]
        );
        if self.driver.can("steady.consume") {
            requested.role = TopicEnd::Consume;
            let done = done!(self.driver.run_with(&requested, LIMIT, &mut |_| ()));
            // And the record that the test wrote after them.
            assert_eq!(done.records, 301);
        }
    }

    /// A burst ends long before the linger time of its batches: flushing sends them.
    fn ends_the_wait_for_company(&mut self) {
        let mut requested = self.requested();
        requested
            .settings
            .insert("linger_ms".to_owned(), json!(60_000));
        let answer = done!(self.driver.run(&requested, LIMIT));
        let lingers = !answer.unsupported.contains(&"linger_ms".to_owned());
        if lingers && !FLUSH_LINGERS.contains(&self.driver.name()) {
            let produce = ProduceCommand {
                burst: burst(&self.topic("company"), 10, 3, 1),
                state: ProducerState::Warm,
                per_record: false,
            };
            let answer = done!(self.driver.run(&produce, LIMIT));
            assert_eq!(
                (answer.delivered.acked, answer.delivered.failed),
                (3, 0),
                "{answer:?}"
            );
        }
        done!(self.driver.run(&self.requested(), LIMIT));
    }

    fn times_out_without_records(&mut self) {
        let topic = format!("{}-missing", self.driver.name());
        let produce = ProduceCommand {
            burst: burst(&topic, 10, 3, 1),
            state: ProducerState::Metadata,
            per_record: false,
        };
        if self.driver.can("produce.metadata") {
            match self.driver.run(&produce, SHORT) {
                Ok(answer) => assert_eq!(
                    (answer.delivered.acked, answer.delivered.failed),
                    (0, 3),
                    "{answer:?}"
                ),
                Err(error) => assert!(
                    matches!(error.reason, DriverFailure::CommandFailed(_)),
                    "{error}"
                ),
            }
        }
        for via in self.vias() {
            let consume = Consume {
                burst: burst(&topic, 10, 3, 1),
                via,
                verify: false,
                commit: false,
            };
            let error = self
                .driver
                .run(&consume, SHORT)
                .expect_err("there is no such topic");
            assert!(
                matches!(error.reason, DriverFailure::CommandFailed(_)),
                "{error}"
            );
        }
        // The driver continues with the existing topic.
        let requested = WarmUp(burst(&self.topic("after"), 10, 10, 1));
        done!(self.driver.run(&requested, LIMIT));
    }

    /// Between two commands a driver is idle: in at least one half second it uses at most 20 ms of
    /// CPU time.
    fn rests(&mut self) {
        done!(self.driver.run(&Gc {}, LIMIT));
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let (before, began) = (ticks(self.driver.pid()), Instant::now());
            while began.elapsed() < Duration::from_millis(500) {
                std::thread::park_timeout(Duration::from_millis(100));
            }
            let used = ticks(self.driver.pid()) - before;
            if used <= 2 {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "it does not rest: {used} ticks in half a second"
            );
        }
    }
}
