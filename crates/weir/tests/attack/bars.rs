//! One attack from start to end, and the bars that every case has to meet.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::honest::{Honest, p99};
use crate::peer::Stop;
use crate::scale::{Scale, Spread};
use crate::support::{Broker, Process};
use crate::target::{DRAIN, Log, Target};

/// Honest clients may be this much later than without an attack.
const P99_EXTRA: Duration = Duration::from_millis(100);
/// Honest clients are back to that within this time after the attack.
const RECOVERY: Duration = Duration::from_secs(5);
/// The process ends within this time after `DRAIN`.
const EXIT_EXTRA: Duration = Duration::from_secs(2);
/// The attack begins this long before SIGTERM.
const BEFORE_EXIT: Duration = Duration::from_secs(1);
/// What may stay resident after the attack, for caches and fragmentation.
const RETAINED_BYTES: u64 = 96 << 20;
/// Noise of the machine is no fault of the target: a case passes if one of this many attempts does.
const ATTEMPTS: usize = 3;

/// One attack.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) log: Log,
    /// File descriptors that the target may have.
    pub(crate) descriptors: u32,
    /// Memory that it may take on top of what it had, in bytes.
    pub(crate) memory_bytes: u64,
    /// Starts the target and honest clients.
    pub(crate) start: fn(&Broker, &Path, &Case) -> Scene,
    /// Attacks until it is told to stop, from one connection.
    pub(crate) attack: fn(&Attack<'_>),
    /// Variants that `make test` runs too.
    pub(crate) small: &'static [Spread],
}

/// Target and honest clients of one case.
pub(crate) struct Scene {
    pub(crate) target: Target,
    pub(crate) honest: Honest,
    pub(crate) producer: Process,
}

/// What one attacking connection needs to know.
pub(crate) struct Attack<'a> {
    pub(crate) index: usize,
    pub(crate) spread: Spread,
    pub(crate) scale: Scale,
    /// Data address.
    pub(crate) listen: &'a str,
    pub(crate) admin: &'a str,
    pub(crate) stop: &'a Stop,
}

impl Attack<'_> {
    /// Returns this connection's share of `total`, at least 1.
    pub(crate) fn share(&self, total: usize) -> usize {
        (total / self.spread.connections()).max(1)
    }
}

/// Measured values of one attempt.
struct Outcome {
    baseline: Duration,
    attacked: Duration,
    deliveries: u64,
    recovery: Option<Duration>,
    extra_bytes: u64,
    retained_bytes: u64,
    exit: Option<Duration>,
    died: bool,
}

/// Runs a case in all variants of the scale and returns what missed its bar.
pub(crate) fn run(broker: &Broker, case: &Case) -> Vec<String> {
    let scale = Scale::from_env();
    let spreads = scale.pick(&[Spread::Single, Spread::Split][..], case.small);
    spreads
        .iter()
        .filter_map(|spread| best_of(broker, case, *spread, scale))
        .collect()
}

fn best_of(broker: &Broker, case: &Case, spread: Spread, scale: Scale) -> Option<String> {
    let mut missed = Vec::new();
    for _ in 0..attempts() {
        let outcome = attempt(broker, case, spread, scale);
        missed = outcome.missed(case);
        println!(
            "{:<22} {:<30} {}",
            case.name,
            spread.name(),
            outcome.line(&missed)
        );
        if missed.is_empty() {
            return None;
        }
    }
    Some(format!(
        "{} ({}): {}",
        case.name,
        spread.name(),
        missed.join("; ")
    ))
}

/// Returns the number of attempts; `WEIR_ATTACK_ATTEMPTS` sets another one.
fn attempts() -> usize {
    let set = std::env::var("WEIR_ATTACK_ATTEMPTS").ok();
    set.and_then(|count| count.parse().ok()).unwrap_or(ATTEMPTS)
}

fn attempt(broker: &Broker, case: &Case, spread: Spread, scale: Scale) -> Outcome {
    let dir = tempfile::tempdir().expect("a directory");
    let Scene {
        mut target,
        honest,
        producer,
    } = (case.start)(broker, dir.path(), case);
    let started = Instant::now();
    std::thread::sleep(scale.baseline);
    let baseline = p99(&honest.since(Some(started)));
    let resident = target.resident_bytes();

    let started = Instant::now();
    under_attack(&target, case, spread, scale, || {
        std::thread::sleep(scale.attack)
    });
    let ended = Instant::now();
    let recovery = honest.recovers(ended, baseline + P99_EXTRA, RECOVERY);
    let during = honest.since(Some(started));
    let extra_bytes = target.peak_bytes().saturating_sub(resident);
    let retained = || target.resident_bytes().saturating_sub(resident);
    while retained() > RETAINED_BYTES && ended.elapsed() < RECOVERY {
        std::thread::sleep(Duration::from_millis(50));
    }
    let retained_bytes = retained();
    let died = !target.is_running();

    let attackers = Attackers::start(&target, case, spread, scale);
    std::thread::sleep(BEFORE_EXIT);
    let exit = target.terminate(DRAIN + EXIT_EXTRA);
    attackers.end();
    drop((honest, producer));
    Outcome {
        baseline,
        attacked: p99(&during),
        deliveries: during.count(),
        recovery,
        extra_bytes,
        retained_bytes,
        exit,
        died,
    }
}

/// The threads of an attack.
struct Attackers {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Attackers {
    fn start(target: &Target, case: &Case, spread: Spread, scale: Scale) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..spread.connections())
            .map(|index| {
                let (listen, admin) = (target.listen.clone(), target.admin.clone());
                let (stop, attack) = (Arc::clone(&stop), case.attack);
                std::thread::spawn(move || {
                    // Attackers have machines of their own: here they leave the processor to others.
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

impl Outcome {
    /// Returns the bars that were missed, with values.
    fn missed(&self, case: &Case) -> Vec<String> {
        let mut missed = Vec::new();
        let mut check = |met: bool, text: String| {
            if !met {
                missed.push(text);
            }
        };
        let bar = self.baseline + P99_EXTRA;
        check(!self.died, "the process ended during the attack".to_owned());
        check(self.deliveries > 0, "no deliveries".to_owned());
        check(
            self.attacked <= bar,
            format!("p99 {:?} above {bar:?}", self.attacked),
        );
        check(
            self.recovery.is_some(),
            format!("no recovery within {RECOVERY:?}"),
        );
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
            "p99 {:6.1} -> {:8.1} ms  n={:<6} recovery {}  memory +{} MB, retained {} MB  exit {}  {}",
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
