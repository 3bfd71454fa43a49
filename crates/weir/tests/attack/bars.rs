//! One attack from start to end, and the limits that every case must meet.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::peer::StopFlag;
use crate::regular::{RegularClients, p99};
use crate::scale::{Scale, Spread};
use crate::support::{Process, TestBroker};
use crate::target::{AttackTarget, DRAIN, Log};

/// Maximum increase of the latency of regular clients during an attack.
const P99_EXTRA: Duration = Duration::from_millis(100);
/// Longest time after the attack until their latency is within that limit again.
const RECOVERY: Duration = Duration::from_secs(5);
/// Longest time from the end of `DRAIN` to the exit of the process.
const EXIT_EXTRA: Duration = Duration::from_secs(2);
/// Duration of the attack before SIGTERM.
const BEFORE_EXIT: Duration = Duration::from_secs(1);
/// Pause between two bursts of an attack at small scale.
const BURST_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum growth of resident memory after `RECOVERY`, for caches and fragmentation.
const RETAINED_BYTES: u64 = 96 << 20;
/// Latency is not checked if the host used more than this share of the CPUs.
const STOLEN_MAX: f64 = 0.05;
/// Number of attempts. A case passes if one attempt does, because the machine may be disturbed.
const ATTEMPTS: usize = 5;

/// One attack.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) log: Log,
    /// Limit of open file descriptors of the target.
    pub(crate) descriptors: u32,
    /// Maximum growth of memory in bytes.
    pub(crate) memory_bytes: u64,
    /// Time for which the target stores the state of a lost connection. Memory is checked
    /// `RECOVERY` later.
    pub(crate) kept: Duration,
    /// Starts the target and regular clients.
    pub(crate) start: fn(&TestBroker, &Path, &Self) -> Scene,
    /// Attacks from one connection until `stop` is set.
    pub(crate) attack: fn(&Attack<'_>),
    /// Variants that `make test` runs too.
    pub(crate) small: &'static [Spread],
}

/// Target and regular clients of one case.
pub(crate) struct Scene {
    pub(crate) target: AttackTarget,
    pub(crate) regular: RegularClients,
    pub(crate) producer: Process,
}

/// Parameters of one attacking connection.
pub(crate) struct Attack<'a> {
    pub(crate) index: usize,
    pub(crate) spread: Spread,
    pub(crate) scale: Scale,
    /// Data address.
    pub(crate) listen: &'a str,
    pub(crate) admin: &'a str,
    pub(crate) stop: &'a StopFlag,
}

impl Attack<'_> {
    /// Waits between two bursts at small scale: the debug build that it attacks is many times
    /// slower than the release build.
    pub(crate) fn pause(&self) {
        if !self.scale.is_full {
            std::thread::sleep(BURST_INTERVAL);
        }
    }

    /// Returns this connection's share of `total`, at least 1.
    pub(crate) fn share(&self, total: usize) -> usize {
        (total / self.spread.connections()).max(1)
    }
}

/// Measured values of one attempt.
struct AttackOutcome {
    baseline: Duration,
    attacked: Duration,
    deliveries: u64,
    recovery: Option<Duration>,
    extra_bytes: u64,
    retained_bytes: u64,
    exit: Option<Duration>,
    died: bool,
    /// Share of the CPUs that the host gave to other machines.
    stolen: f64,
}

/// Runs a case in all variants of the scale and returns the exceeded limits.
pub(crate) fn run(broker: &TestBroker, case: &Case) -> Vec<String> {
    let scale = Scale::from_env();
    let spreads = scale.pick(&[Spread::Single, Spread::Split][..], case.small);
    spreads
        .iter()
        .filter_map(|spread| best_of(broker, case, *spread, scale))
        .collect()
}

fn best_of(broker: &TestBroker, case: &Case, spread: Spread, scale: Scale) -> Option<String> {
    let name = format!("{} ({})", case.name, spread.name());
    let mut missed = Vec::new();
    let mut late = String::new();
    for _ in 0..attempts() {
        let outcome = attempt(broker, case, spread, scale);
        missed = outcome.missed(case);
        println!("{name:<55} {}", outcome.line(&missed));
        late = outcome.late().unwrap_or_default();
        if missed.is_empty() && late.is_empty() {
            return None;
        }
    }
    if missed.is_empty() {
        // Written directly, because the test harness captures the output of passing tests.
        let _ = writeln!(io::stderr(), "\nskipped: latency of attack {name}: {late}");
        return None;
    }
    Some(format!("{name}: {}", missed.join("; ")))
}

/// Returns the number of attempts; `WEIR_ATTACK_ATTEMPTS` sets another one.
fn attempts() -> usize {
    let set = std::env::var("WEIR_ATTACK_ATTEMPTS").ok();
    set.and_then(|count| count.parse().ok()).unwrap_or(ATTEMPTS)
}

fn attempt(broker: &TestBroker, case: &Case, spread: Spread, scale: Scale) -> AttackOutcome {
    let dir = tempfile::tempdir().expect("a directory");
    let Scene {
        mut target,
        regular,
        producer,
    } = (case.start)(broker, dir.path(), case);
    let host = HostCpu::now();
    let started = Instant::now();
    std::thread::sleep(scale.baseline);
    let baseline = p99(&regular.since(Some(started)));
    let resident = target.resident_bytes();

    let started = Instant::now();
    let attackers = Attackers::start(&target, case, spread, scale);
    std::thread::sleep(scale.attack);
    attackers.end();
    let ended = Instant::now();
    let recovery = regular.recovers(ended, baseline + P99_EXTRA, RECOVERY);
    let during = regular.since(Some(started));
    let extra_bytes = target.peak_bytes().saturating_sub(resident);
    let retained = || target.resident_bytes().saturating_sub(resident);
    while retained() > RETAINED_BYTES && ended.elapsed() < case.kept + RECOVERY {
        std::thread::sleep(Duration::from_millis(50));
    }
    let retained_bytes = retained();
    let stolen = host.stolen_since();
    let died = !target.is_running();

    let attackers = Attackers::start(&target, case, spread, scale);
    std::thread::sleep(BEFORE_EXIT);
    let exit = target.terminate(DRAIN + EXIT_EXTRA);
    attackers.end();
    drop((regular, producer));
    AttackOutcome {
        baseline,
        attacked: p99(&during),
        deliveries: during.count(),
        recovery,
        extra_bytes,
        retained_bytes,
        exit,
        died,
        stolen,
    }
}

/// CPU time of the machine since its boot in clock ticks, from `/proc/stat`.
struct HostCpu {
    total: u64,
    stolen: u64,
}

impl HostCpu {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks = line.split_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = ticks.filter_map(|tick| tick.parse().ok()).collect();
        Self {
            total: ticks.iter().sum(),
            stolen: ticks.get(7).copied().unwrap_or(0),
        }
    }

    /// Returns the share of CPU time that the host gave to other machines since then.
    fn stolen_since(&self) -> f64 {
        let now = Self::now();
        let total = now.total.saturating_sub(self.total).max(1);
        now.stolen.saturating_sub(self.stolen) as f64 / total as f64
    }
}

/// The threads of an attack.
struct Attackers {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Attackers {
    fn start(target: &AttackTarget, case: &Case, spread: Spread, scale: Scale) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..spread.connections())
            .map(|index| {
                let (listen, admin) = (target.listen.clone(), target.admin.clone());
                let (stop, attack) = (Arc::clone(&stop), case.attack);
                std::thread::spawn(move || {
                    // Real attackers use other machines, so here they yield the CPU.
                    let _ = rustix::process::nice(19);
                    attack(&Attack {
                        index,
                        spread,
                        scale,
                        listen: &listen,
                        admin: &admin,
                        stop: &stop,
                    });
                })
            })
            .collect();
        Self { stop, threads }
    }

    /// Ends the attack and waits until all its connections are closed.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("an attacker does not panic");
        }
    }
}

impl AttackOutcome {
    /// Returns the exceeded latency limits of regular clients. Returns none if the host used much
    /// of the CPUs.
    fn late(&self) -> Option<String> {
        let bar = self.baseline + P99_EXTRA;
        let stolen = format!("{:.0} % of CPU time stolen", self.stolen * 1e2);
        match self.recovery {
            _ if self.attacked > bar => {
                Some(format!("p99 {:?} above {bar:?}, {stolen}", self.attacked))
            }
            None => Some(format!("no recovery within {RECOVERY:?}, {stolen}")),
            Some(_) => None,
        }
    }

    /// Returns the exceeded limits with their values.
    fn missed(&self, case: &Case) -> Vec<String> {
        let mut missed = Vec::new();
        let mut check = |met: bool, text: String| {
            if !met {
                missed.push(text);
            }
        };
        check(!self.died, "the process ended during the attack".to_owned());
        check(self.deliveries > 0, "no deliveries".to_owned());
        if self.stolen <= STOLEN_MAX {
            let late = self.late();
            check(late.is_none(), late.unwrap_or_default());
        }
        check(
            self.extra_bytes <= case.memory_bytes,
            format!(
                "{} MB more memory, limit {}",
                self.extra_bytes >> 20,
                case.memory_bytes >> 20
            ),
        );
        check(
            self.retained_bytes <= RETAINED_BYTES,
            format!(
                "{} MB retained, limit {}",
                self.retained_bytes >> 20,
                RETAINED_BYTES >> 20
            ),
        );
        let exit = DRAIN + EXIT_EXTRA;
        check(
            self.exit.is_some(),
            format!("SIGTERM did not end it within {exit:?}"),
        );
        missed
    }

    fn line(&self, missed: &[String]) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let optional = |time: Option<Duration>| {
            time.map_or_else(
                || "never".to_owned(),
                |time| format!("{:.1} s", time.as_secs_f64()),
            )
        };
        format!(
            "p99 {:6.1} -> {:8.1} ms  n={:<6} recovery {}  memory +{} MB, retained {} MB  \
         exit {}  {}",
            ms(self.baseline),
            ms(self.attacked),
            self.deliveries,
            optional(self.recovery),
            self.extra_bytes >> 20,
            self.retained_bytes >> 20,
            optional(self.exit),
            if missed.is_empty() { "ok" } else { "MISSED" }
        )
    }
}
