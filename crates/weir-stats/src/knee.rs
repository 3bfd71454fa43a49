//! The knee of a throughput-latency curve: how far a system goes before it pays.

/// One load level of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPoint {
    /// What was asked for, per second.
    pub offered_per_s: f64,
    /// What was done, per second.
    pub achieved_per_s: f64,
    /// Mean latency at it, in milliseconds.
    pub latency_ms: f64,
}

/// What a system may do and still be below its knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KneeRule {
    /// Share of the offered load that has to be done.
    pub achieved_share: f64,
    /// Latency over that of the least load.
    pub latency_factor: f64,
    /// Latency above that of the least load that is not counted as a rise, in milliseconds.
    pub latency_slack_ms: f64,
}

impl Default for KneeRule {
    /// 95 % of the load, at up to three times the latency of the least load and 5 ms more.
    fn default() -> Self {
        Self {
            achieved_share: 0.95,
            latency_factor: 3.0,
            latency_slack_ms: 5.0,
        }
    }
}

/// Where a curve bends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// The last point before it.
    pub at: LoadPoint,
    /// The first point beyond it; `None` if the sweep did not get there, and the knee lies above.
    pub beyond: Option<LoadPoint>,
}

/// The highest load up to which every level was within `rule`; `None` without points, or if the least
/// load was already too much. Points may come in any order; those of one load count by their worst.
pub fn knee(points: &[LoadPoint], rule: KneeRule) -> Option<Knee> {
    let mut points: Vec<LoadPoint> = points.iter().copied().filter(is_usable).collect();
    points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    let least_ms = points.first()?.latency_ms;
    let limit_ms = (least_ms * rule.latency_factor).max(least_ms + rule.latency_slack_ms);
    let holds = |point: &LoadPoint| {
        point.achieved_per_s >= point.offered_per_s * rule.achieved_share
            && point.latency_ms <= limit_ms
    };
    let first_beyond = points.iter().position(|point| !holds(point));
    let beyond = first_beyond.map(|at| points[at]);
    let before = first_beyond.unwrap_or(points.len());
    // A level whose other repetition broke is beyond as a whole.
    let held = points[..before].iter().rev();
    let mut held =
        held.filter(|point| beyond.is_none_or(|beyond| point.offered_per_s < beyond.offered_per_s));
    let at = *held.next()?;
    Some(Knee { at, beyond })
}

fn is_usable(point: &LoadPoint) -> bool {
    let values = [point.offered_per_s, point.achieved_per_s, point.latency_ms];
    values.iter().all(|value| value.is_finite()) && point.offered_per_s > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(offered: f64, achieved: f64, latency_ms: f64) -> LoadPoint {
        LoadPoint {
            offered_per_s: offered,
            achieved_per_s: achieved,
            latency_ms,
        }
    }

    #[test]
    fn the_knee_is_before_the_load_that_is_not_done() {
        let curve = [
            point(8000.0, 5200.0, 900.0),
            point(1000.0, 1000.0, 2.0),
            point(2000.0, 1999.0, 2.5),
            point(4000.0, 3990.0, 4.0),
        ];
        let found = knee(&curve, KneeRule::default()).unwrap();
        assert_eq!(found.at, curve[3]);
        assert_eq!(found.beyond, Some(curve[0]));
    }

    #[test]
    fn a_rise_of_latency_alone_is_a_knee_a_small_one_is_not() {
        let curve = [
            point(1000.0, 1000.0, 2.0),
            point(2000.0, 2000.0, 6.9),
            point(3000.0, 3000.0, 7.1),
        ];
        let found = knee(&curve, KneeRule::default()).unwrap();
        assert_eq!((found.at, found.beyond), (curve[1], Some(curve[2])));
        let slow = [point(1000.0, 1000.0, 20.0), point(2000.0, 2000.0, 59.0)];
        let found = knee(&slow, KneeRule::default()).unwrap();
        assert_eq!((found.at, found.beyond), (slow[1], None));
    }

    #[test]
    fn what_recovers_later_does_not_move_it() {
        let curve = [
            point(1000.0, 1000.0, 2.0),
            point(2000.0, 1500.0, 2.0),
            point(3000.0, 3000.0, 2.0),
        ];
        assert_eq!(knee(&curve, KneeRule::default()).unwrap().at, curve[0]);
    }

    #[test]
    fn there_may_be_none() {
        assert_eq!(knee(&[], KneeRule::default()), None);
        let broken = [point(1000.0, 10.0, 2.0)];
        assert_eq!(knee(&broken, KneeRule::default()), None);
        let odd = [point(f64::NAN, 1.0, 1.0), point(0.0, 0.0, 0.0)];
        assert_eq!(knee(&odd, KneeRule::default()), None);
        // One of two repetitions of the least load broke.
        let half = [point(1000.0, 1000.0, 2.0), point(1000.0, 1.0, 2.0)];
        assert_eq!(knee(&half, KneeRule::default()), None);
    }
}
