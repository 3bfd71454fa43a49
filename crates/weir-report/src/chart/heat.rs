//! Heat map of latency over time: one column per second, darker for more deliveries.

use std::fmt::Write as _;

use super::axis::Scale;
use super::plot::{Plot, tick, trimmed};
use super::series::SECONDS;
use crate::format::TimeUnit;
use crate::timeline::{Timeline, bin_from_us};

/// Number of distinguishable shades.
const SHADES: usize = 7;
/// Maximum number of columns; more would be narrower than a printed dot.
const COLUMNS_MAX: usize = 120;

/// Draws the heat map of one cell in one colour; returns `None` without values.
pub(crate) fn heat_map(name: &str, slot: &str, timeline: &Timeline) -> Option<String> {
    let timeline = timeline.thinned(COLUMNS_MAX);
    let (low, high) = timeline.bins()?;
    let y = Scale::log_between(bin_from_us(low), bin_from_us(high + 1));
    let unit = TimeUnit::for_values_us(y.ticks().into_iter());
    let title = format!("{name}: latency per second, {}, log scale", unit.name());
    let mut plot = Plot::new(&title, y, &title, |us| trimmed(&unit.show(Some(us))));
    let last_s = f64::from(timeline.seconds.last()?.t_s);
    let x = Scale::between(0.0, last_s);
    for t_s in x.ticks() {
        plot.x_tick(x.fraction(t_s), &tick(t_s), false);
    }
    plot.x_title(SECONDS);
    let counts = timeline
        .seconds
        .iter()
        .flat_map(|second| second.bins.values());
    let most = counts.copied().max()? as f64;
    // The rectangles of a shade are one path: a tenth of the bytes of separate elements.
    let mut shades: [String; SHADES] = Default::default();
    let step_s = (last_s / timeline.seconds.len() as f64).floor().max(1.0);
    let mut from = 0.0;
    for second in &timeline.seconds {
        let until = f64::from(second.t_s);
        // A second without deliveries has no column.
        let from_s = f64::max(from, until - step_s);
        for (bin, count) in &second.bins {
            let share = (*count as f64).ln_1p() / most.ln_1p();
            let shade = ((share * SHADES as f64).ceil() as usize).clamp(1, SHADES) - 1;
            let (bottom, top) = (plot.y(bin_from_us(*bin)), plot.y(bin_from_us(bin + 1)));
            let left = plot.x(x.fraction(from_s));
            let (width, height) = (plot.x(x.fraction(until)) - left, bottom - top);
            let _ = write!(
                shades[shade],
                "M{left:.1} {top:.1}h{width:.1}v{height:.1}h-{width:.1}z"
            );
        }
        from = until;
    }
    for (data, shade) in shades.iter().zip(1..).filter(|(data, _)| !data.is_empty()) {
        plot.svg.shape(data, &format!("heat h{shade} {slot}"), "");
    }
    Some(plot.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::TimelineSecond;

    #[test]
    fn each_range_with_values_is_drawn() {
        let second = |t_s, bins: &[(u16, u64)]| TimelineSecond {
            t_s,
            bins: bins.iter().copied().collect(),
            ..TimelineSecond::default()
        };
        let timeline = Timeline {
            seconds: vec![second(1, &[(30, 5), (31, 500)]), second(3, &[(35, 1)])],
        };
        let svg = heat_map("gateway", "a1", &timeline).unwrap();
        assert_eq!(svg.matches("h-").count(), 3, "{svg}");
        assert!(
            svg.contains("heat h7 a1") && svg.contains("heat h1 a1"),
            "{svg}"
        );
        assert!(heat_map("gateway", "a1", &Timeline::default()).is_none());
    }
}
