//! Box plots of the repetitions of each cell, one box per library.

use super::plot::{LegendSymbol, time_plot};

/// The repetitions of one library in one cell, in microseconds.
pub(crate) struct BoxOf {
    pub(crate) place: usize,
    pub(crate) series: usize,
    pub(crate) slot: &'static str,
    /// Minimum, lower quartile, median, upper quartile and maximum.
    pub(crate) five_us: [f64; 5],
    pub(crate) tip: String,
}

/// Draws one chart; returns `None` if there are no boxes.
pub(crate) fn boxes(
    label: &str,
    places: &[String],
    x_title: &str,
    series: &[(&str, &'static str)],
    boxes: &[BoxOf],
) -> Option<String> {
    let values_us: Vec<f64> = boxes.iter().flat_map(|it| it.five_us).collect();
    if !values_us.iter().any(|value| *value > 0.0) {
        return None;
    }
    let (mut plot, _) = time_plot(label, label, &values_us);
    // More entries do not fit on one line; the page has its own legend.
    if series.len() <= 3 {
        plot.legend(LegendSymbol::Bar, series);
    }
    let band = 1.0 / places.len().max(1) as f64;
    for (index, place) in places.iter().enumerate() {
        plot.x_tick((index as f64 + 0.5) * band, place, false);
    }
    plot.x_title(x_title);
    let step = band * 0.82 / series.len().max(1) as f64;
    let half = (plot.x(step) - plot.x(0.0)) * 0.36;
    for it in boxes {
        let offset = (it.series as f64 - (series.len() as f64 - 1.0) / 2.0) * step;
        let x = plot.x((it.place as f64 + 0.5) * band + offset);
        let [min, low, median, high, max] = it.five_us.map(|us| plot.y(us));
        let half = half.min(16.0);
        let (left, right) = (x - half, x + half);
        let data = format!(
            "M{left:.1} {low:.1}H{right:.1}V{high:.1}H{left:.1}ZM{x:.1} {low:.1}V{min:.1}M{x:.1} \
             {high:.1}V{max:.1}M{left:.1} {median:.1}H{right:.1}"
        );
        let class = format!("box-plot {}", it.slot);
        plot.svg.shape(&data, &class, &it.tip);
    }
    Some(plot.finish())
}
