//! The charts that are written to their own files.

use weir_stats::run::Run;

use super::{cpu, curve, latency, memory, plot, svg, sweep, throughput};
use crate::view;

/// A chart written to its own file, for Markdown.
pub(crate) struct ChartFile {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// Returns the charts of the page that Markdown includes too.
pub(crate) fn chart_files(run: &Run) -> Vec<ChartFile> {
    let levels = view::levels(run);
    let mut charts = Vec::new();
    // Grid points differ in more than the number of clients.
    if !view::is_grid(run) {
        charts = vec![
            (
                "latency",
                "Latency by number of clients",
                Some(latency(run)),
            ),
            (
                "throughput",
                "Deliveries by number of clients",
                Some(throughput(run)),
            ),
            (
                "cpu",
                "CPU time per delivered record by number of clients",
                Some(cpu(run)),
            ),
            ("memory", "Memory per client", memory(run)),
        ];
    }
    charts.push(("curve", "Latency by throughput", curve(run, &levels)));
    let charts = charts.into_iter();
    let charts = charts.map(|(file, title, svg)| (file.to_owned(), title.to_owned(), svg));
    let sweeps = sweep::by_subject(run)
        .into_iter()
        .flat_map(|(name, cells)| {
            sweep::sweeps(&cells).into_iter().map(move |chart| {
                let title = format!("{name}: {}", chart.title);
                (file_part(&title), title, Some(chart.svg))
            })
        });
    let file = |(file, title, svg): (String, String, Option<String>)| ChartFile {
        file: format!("{file}.svg"),
        title,
        svg: svg::standalone(&svg.unwrap_or_default(), (plot::WIDTH, plot::HEIGHT)),
    };
    let drawn = charts.chain(sweeps).filter(|(_, _, svg)| svg.is_some());
    drawn.map(file).collect()
}

/// Returns the letters and digits of a title as a file name.
fn file_part(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase().chars().take(80).collect()
}
