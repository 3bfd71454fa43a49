//! Steps of a search for the maximum sustained load.

use weir_stats::run::FindMax;

use super::axis::Scale;
use super::plot::{LegendSymbol, Plot, tick};
use super::sweep::words;
use crate::format;

/// Draws the load of each step, filled if it was sustained, and returns the chart with its caption;
/// `None` without steps.
pub(crate) fn search(search: &FindMax) -> Option<(String, String)> {
    let values: Vec<f64> = search.steps.iter().map(|step| step.value).collect();
    values.iter().find(|value| **value > 0.0)?;
    let title = format!("{}, log scale", words(&search.variable));
    let scale = Scale::log(values.iter().copied());
    let mut plot = Plot::new("Loads of the search", scale, &title, tick);
    let words = [
        (Some(true), "sustained", "a1"),
        (Some(false), "not sustained", "a2"),
        (None, "not measured", "a0"),
    ];
    let has = |result| search.steps.iter().any(|step| step.sustained == result);
    let entries = words.into_iter().filter(|(result, ..)| has(*result));
    let entries: Vec<_> = entries.map(|(_, word, slot)| (word, slot)).collect();
    plot.legend(LegendSymbol::Dot, &entries);
    let band = 1.0 / values.len() as f64;
    for (index, step) in search.steps.iter().enumerate() {
        let found = words.iter().find(|(result, ..)| *result == step.sustained);
        let (_, word, slot) = found.copied().unwrap_or(words[2]);
        let place = (index as f64 + 0.5) * band;
        // Every label of a long search does not fit.
        if values.len() <= 16 || index % 4 == 0 {
            plot.x_tick(place, &(index + 1).to_string(), false);
        }
        let tip = format!("{} {word}", format::figure(Some(step.value)));
        let at = (plot.x(place), plot.y(step.value));
        plot.svg.circle(at, 4.6, &format!("fill {slot}"), &tip);
    }
    plot.x_title("step of the search");
    let caption = "Every load tested, in order. The result was confirmed in a longer window, and \
                   the load above it was tested again.";
    Some((plot.finish(), caption.to_owned()))
}
