//! Cumulative distributions: share of records at or below each latency.

use super::axis::Scale;
use super::plot::{LegendSymbol, Plot, trimmed};
use crate::format::TimeUnit;

/// One line: values in microseconds, ascending, each with the share of records at or below it.
pub(crate) struct DistributionLine<'a> {
    pub(crate) name: &'a str,
    pub(crate) slot: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws one chart; returns `None` without points.
pub(crate) fn distribution(
    label: &str,
    x_title: &str,
    lines: &[DistributionLine<'_>],
) -> Option<String> {
    let values = || {
        lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|(us, _)| us.max(1.0))
    };
    values().next()?;
    let x = Scale::log(values());
    let unit = TimeUnit::for_values_us(x.ticks().into_iter());
    let percent = |share: f64| trimmed(&crate::format::number(Some(share * 100.0)));
    let mut plot = Plot::new(
        label,
        Scale::between(0.0, 1.0),
        "share of records, %",
        percent,
    );
    if lines.len() <= 3 {
        let entries: Vec<_> = lines.iter().map(|line| (line.name, line.slot)).collect();
        plot.legend(LegendSymbol::Line, &entries);
    }
    for tick in x.ticks() {
        plot.x_tick(x.fraction(tick), &trimmed(&unit.show(Some(tick))), true);
    }
    plot.x_title(&format!("{x_title}, {}, log scale", unit.name()));
    for line in lines {
        let places = line.points.iter();
        let places: Vec<_> = places
            .map(|(us, share)| (plot.x(x.fraction(us.max(1.0))), plot.y(*share)))
            .collect();
        plot.svg.path(&places, &format!("line {}", line.slot));
        if let ([(x, y)], [(us, _)]) = (places.as_slice(), line.points.as_slice()) {
            let tip = format!("{}: {us} µs", line.name);
            plot.svg
                .circle((*x, *y), 3.4, &format!("fill {}", line.slot), &tip);
        }
    }
    Some(plot.finish())
}
