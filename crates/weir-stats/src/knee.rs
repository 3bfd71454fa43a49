//! The knee of a throughput-latency curve: the highest load before throughput or latency degrades.

/// One load level of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPoint {
    /// Offered load per second.
    pub offered_per_s: f64,
    /// Achieved load per second.
    pub achieved_per_s: f64,
    /// Mean latency in milliseconds.
    pub latency_ms: f64,
}

/// Minimum share of the offered load that is achieved below the knee.
pub const ACHIEVED_SHARE: f64 = 0.95;
/// Maximum latency below the knee, relative to that of the lowest load.
pub const LATENCY_FACTOR: f64 = 3.0;
/// Increase of latency over that of the lowest load that is always allowed.
const LATENCY_SLACK_MS: f64 = 5.0;

/// The knee of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// Last point before the knee.
    pub at: LoadPoint,
    /// First point after the knee; `None` if no point of the sweep is after it.
    pub beyond: Option<LoadPoint>,
}

/// Returns the highest load up to which every level is within the limits. Returns `None` without
/// points, or if the lowest load is not within them. Points may be in any order; the worst point of
/// a load counts.
pub fn knee(points: &[LoadPoint]) -> Option<Knee> {
    let mut points: Vec<LoadPoint> = points.iter().copied().filter(is_usable).collect();
    points.sort_by(|a, b| a.offered_per_s.total_cmp(&b.offered_per_s));
    let lowest_ms = points.first()?.latency_ms;
    let limit_ms = (lowest_ms * LATENCY_FACTOR).max(lowest_ms + LATENCY_SLACK_MS);
    let is_within = |point: &LoadPoint| {
        point.achieved_per_s >= point.offered_per_s * ACHIEVED_SHARE && point.latency_ms <= limit_ms
    };
    let first_beyond = points.iter().position(|point| !is_within(point));
    let beyond = first_beyond.map(|at| points[at]);
    let before = first_beyond.unwrap_or(points.len());
    // A level with one failed repetition is after the knee as a whole.
    let within = points[..before].iter().rev();
    let mut within = within
        .filter(|point| beyond.is_none_or(|beyond| point.offered_per_s < beyond.offered_per_s));
    let at = *within.next()?;
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
    fn knee_is_before_the_load_not_achieved() {
        let curve = [
            point(8000.0, 5200.0, 900.0),
            point(1000.0, 1000.0, 2.0),
            point(2000.0, 1999.0, 2.5),
            point(4000.0, 3990.0, 4.0),
        ];
        let found = knee(&curve).unwrap();
        assert_eq!(found.at, curve[3]);
        assert_eq!(found.beyond, Some(curve[0]));
    }

    #[test]
    fn only_a_large_latency_increase_is_a_knee() {
        let curve = [
            point(1000.0, 1000.0, 2.0),
            point(2000.0, 2000.0, 6.9),
            point(3000.0, 3000.0, 7.1),
        ];
        let found = knee(&curve).unwrap();
        assert_eq!((found.at, found.beyond), (curve[1], Some(curve[2])));
        let slow = [point(1000.0, 1000.0, 20.0), point(2000.0, 2000.0, 59.0)];
        let found = knee(&slow).unwrap();
        assert_eq!((found.at, found.beyond), (slow[1], None));
    }

    #[test]
    fn later_recovery_does_not_move_the_knee() {
        let curve = [
            point(1000.0, 1000.0, 2.0),
            point(2000.0, 1500.0, 2.0),
            point(3000.0, 3000.0, 2.0),
        ];
        assert_eq!(knee(&curve).unwrap().at, curve[0]);
    }

    #[test]
    fn knee_may_be_missing() {
        assert_eq!(knee(&[]), None);
        let broken = [point(1000.0, 10.0, 2.0)];
        assert_eq!(knee(&broken), None);
        let odd = [point(f64::NAN, 1.0, 1.0), point(0.0, 0.0, 0.0)];
        assert_eq!(knee(&odd), None);
        // One of two repetitions of the lowest load failed.
        let half = [point(1000.0, 1000.0, 2.0), point(1000.0, 1.0, 2.0)];
        assert_eq!(knee(&half), None);
    }
}
