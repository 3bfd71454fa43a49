//! Heat map of latency over time: one column per second, darker for more deliveries.

use super::axis::Scale;
use super::plot::{Plot, trimmed};
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
    let (low_us, high_us) = (bin_from_us(low), bin_from_us(high + 1));
    let y = Scale::Log {
        low: low_us,
        high: high_us,
    };
    let unit = TimeUnit::for_values_us(y.ticks().into_iter());
    let title = format!("{name}: latency per second, {}, log scale", unit.name());
    let mut plot = Plot::new(&title, y, &title, |us| trimmed(&unit.show(Some(us))));
    let last_s = f64::from(timeline.seconds.last()?.t_s);
    let x = Scale::between(0.0, last_s);
    for t_s in x.ticks() {
        plot.x_tick(x.fraction(t_s), &super::plot::tick(t_s), false);
    }
    plot.x_title("seconds since start of the measured window");
    let counts = || {
        timeline
            .seconds
            .iter()
            .flat_map(|second| second.bins.values())
    };
    let most = counts().copied().max()? as f64;
    let mut shades: [Vec<HeatCell>; SHADES] = Default::default();
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
            shades[shade].push(HeatCell {
                left: plot.x(x.fraction(from_s)),
                right: plot.x(x.fraction(until)),
                top,
                bottom,
            });
        }
        from = until;
    }
    for (shade, places) in shades.iter().enumerate() {
        plot.svg
            .shape(&outline(places), &format!("heat h{} {slot}", shade + 1));
    }
    Some(plot.finish())
}

struct HeatCell {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Returns the rectangles as one path, which takes a tenth of the bytes of separate elements.
fn outline(places: &[HeatCell]) -> String {
    places
        .iter()
        .map(|place| {
            format!(
                "M{:.1} {:.1}h{:.1}v{:.1}h-{2:.1}z",
                place.left,
                place.top,
                place.right - place.left,
                place.bottom - place.top
            )
        })
        .collect()
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
