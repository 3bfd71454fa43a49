//! The bound contains the true offset for scripted clocks and delays.

use proptest::prelude::*;

use super::*;

/// Clocks of two machines and the network between them.
#[derive(Debug, Clone)]
struct Script {
    offset_ns: i64,
    /// Constant part of the rate, in ppm.
    drift_ppm: f64,
    /// Periodic change of the rate: amplitude in ppm and period in seconds.
    wander: (f64, f64),
    /// Time and size of a step of the peer's clock.
    step: Option<(f64, i64)>,
    /// Minimum delay to the peer and back, in nanoseconds.
    delay_ns: (u64, u64),
    jitter_ns: u64,
    /// Share of lost exchanges, in percent.
    lost: u64,
    seed: u64,
}

const START_NS: u64 = 1_700_000_000_000_000_000;
const LEAD_S: f64 = 8.0;

impl Script {
    /// Returns the offset of the peer's clock after `at_s` seconds.
    fn offset(&self, at_s: f64) -> f64 {
        let (amplitude, period_s) = self.wander;
        let angle = std::f64::consts::TAU / period_s;
        let wander = amplitude * 1e3 * (1.0 - (angle * at_s).cos()) / angle;
        let step = self.step.filter(|(step_s, _)| at_s >= *step_s);
        self.drift_ppm * 1e3 * at_s + wander + step.map_or(0.0, |(_, ns)| ns as f64)
    }

    fn peer_ns(&self, at_s: f64) -> u64 {
        let at_ns = START_NS as i128 + (at_s * 1e9) as i128;
        (at_ns + i128::from(self.offset_ns) + self.offset(at_s) as i128) as u64
    }

    /// Returns the history of exchanges, eight a second, for `LEAD_S + run_s + LEAD_S` seconds.
    fn history(&self, run_s: f64) -> ClockHistory {
        let mut history = ClockHistory::default();
        let mut random = self.seed | 1;
        let mut below = |max: u64| {
            // Xorshift.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % max.max(1)
        };
        let exchanges = ((2.0 * LEAD_S + run_s) * 8.0) as u32;
        for index in 0..exchanges {
            let sent_s = f64::from(index) / 8.0;
            let to_s = (self.delay_ns.0 + below(self.jitter_ns)) as f64 / 1e9;
            let back_s = (self.delay_ns.1 + below(self.jitter_ns)) as f64 / 1e9;
            let busy_s = below(20_000) as f64 / 1e9;
            if below(100) < self.lost {
                continue;
            }
            let received_s = sent_s + to_s + busy_s + back_s;
            history.add(&Exchange {
                sent_ns: START_NS + (sent_s * 1e9) as u64,
                peer_received_ns: self.peer_ns(sent_s + to_s),
                peer_sent_ns: self.peer_ns(sent_s + to_s + busy_s),
                received_ns: START_NS + (received_s * 1e9) as u64,
            });
        }
        history
    }

    fn bound(&self, run_s: f64) -> Result<ClockBound, ClockError> {
        let ns = |at_s: f64| START_NS + (at_s * 1e9) as u64;
        let history = self.history(run_s);
        assert_eq!(history.ignored(), 0);
        history.bound(ns(LEAD_S), ns(LEAD_S + run_s))
    }

    /// Returns the largest difference between the true offset and that of the bound.
    fn error(&self, bound: &ClockBound, run_s: f64) -> f64 {
        let times = (0..=1000).map(|step| LEAD_S + run_s * f64::from(step) / 1000.0);
        let stated = (bound.offset_ns - self.offset_ns) as f64;
        let errors = times.map(|at_s| (self.offset(at_s) - stated).abs());
        errors.fold(0.0, f64::max)
    }
}

fn script() -> impl Strategy<Value = Script> {
    let delays = (0u64..3_000_000, 0u64..3_000_000);
    let wander = (0.0..1.9, 5.0..500.0);
    let clocks = (-4_000_000_000i64..4_000_000_000, -100.0..100.0, wander);
    (clocks, delays, 0u64..2_000_000, 0u64..40, any::<u64>()).prop_map(
        |((offset_ns, drift_ppm, wander), delay_ns, jitter_ns, lost, seed)| Script {
            offset_ns,
            drift_ppm,
            wander,
            step: None,
            delay_ns,
            jitter_ns,
            lost,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bound_contains_true_offset_with_drift_and_asymmetry(script in script(), run_s in 1.0..90.0) {
        let bound = script.bound(run_s).unwrap();
        let error = script.error(&bound, run_s);
        prop_assert!(error <= bound.error_ns as f64, "{error} beyond {bound:?}");
    }

    #[test]
    fn step_is_detected_or_inside_the_bound(
        script in script(),
        run_s in 1.0..90.0,
        step_at in 0.0..1.0,
        step_ns in -20_000_000i64..20_000_000,
    ) {
        let step_s = step_at * (run_s + 2.0 * LEAD_S);
        let script = Script { step: Some((step_s, step_ns)), ..script };
        match script.bound(run_s) {
            Ok(bound) => {
                let error = script.error(&bound, run_s);
                prop_assert!(error <= bound.error_ns as f64, "{error} beyond {bound:?}");
            }
            Err(error) => prop_assert!(matches!(error, ClockError::Stepped(_)), "{error}"),
        }
    }
}

const QUIET: Script = Script {
    offset_ns: -123_456_789,
    drift_ppm: 20.0,
    wander: (0.0, 1.0),
    step: None,
    delay_ns: (50_000, 50_000),
    jitter_ns: 30_000,
    lost: 0,
    seed: 7,
};

#[test]
fn bound_of_a_quiet_network_is_narrow() {
    let still = Script {
        drift_ppm: 0.0,
        ..QUIET
    };
    let bound = still.bound(30.0).unwrap();
    assert!(bound.error_ns < 100_000, "{bound:?}");
    let error_ns = (bound.offset_ns - still.offset_ns).abs();
    assert!(error_ns < 50_000, "{bound:?}");
    // 20 ppm are 600 us in 30 s, half of them on each side of the middle.
    let bound = QUIET.bound(30.0).unwrap();
    assert!((300_000..400_000).contains(&bound.error_ns), "{bound:?}");
    assert!((bound.drift_ns_per_s - 20e3).abs() < 3e3, "{bound:?}");
}

#[test]
fn large_step_is_detected() {
    for step_ns in [-2_000_000, 2_000_000] {
        let stepped = Script {
            step: Some((20.0, step_ns)),
            ..QUIET
        };
        let error = stepped.bound(30.0).unwrap_err();
        assert!(matches!(error, ClockError::Stepped(_)), "{error}");
    }
}

#[test]
fn time_span_must_be_covered() {
    let history = QUIET.history(10.0);
    let ns = |at_s: f64| START_NS + (at_s * 1e9) as u64;
    for (from_s, until_s) in [(2.0, 10.0), (10.0, 60.0), (-5.0, 10.0)] {
        let bound = history.bound(ns(from_s), ns(until_s));
        assert!(matches!(bound, Err(ClockError::TooFew(_))), "{bound:?}");
    }
    let empty = ClockHistory::default().bound(0, 1);
    assert_eq!(empty, Err(ClockError::TooFew(0)));
}

#[test]
fn impossible_timestamps_are_ignored() {
    let mut history = ClockHistory::default();
    let possible = Exchange {
        sent_ns: 1000,
        peer_received_ns: 5000,
        peer_sent_ns: 5100,
        received_ns: 2000,
    };
    history.add(&possible);
    for impossible in [
        Exchange {
            peer_sent_ns: 4999,
            ..possible
        },
        Exchange {
            received_ns: 999,
            ..possible
        },
        Exchange {
            peer_sent_ns: u64::MAX,
            ..possible
        },
        Exchange {
            sent_ns: 10,
            ..possible
        },
    ] {
        history.add(&impossible);
    }
    assert_eq!(history.ignored(), 4);
}
