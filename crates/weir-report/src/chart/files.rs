//! The charts that are written to their own files.

use weir_stats::run::Run;

use super::levels::{cpu, latency, memory, throughput};
use super::{curve, svg, sweep};
use crate::view::{self, Level};

pub(crate) struct ChartFile {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// The section of the page that shows a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Latency,
    Cost,
    Delivery,
}

/// A chart of the page that Markdown includes too.
pub(crate) struct PageChart {
    /// File name without extension.
    pub(crate) file: &'static str,
    pub(crate) topic: Topic,
    pub(crate) title: &'static str,
    pub(crate) caption: &'static str,
    /// `None` if there is nothing to draw.
    pub(crate) svg: Option<String>,
}

/// Returns the charts of latency and cost by number of clients.
pub(crate) fn by_clients(run: &Run, levels: &[Level<'_>]) -> [PageChart; 5] {
    let chart = |file, topic, title, caption, svg| PageChart {
        file,
        topic,
        title,
        caption,
        svg,
    };
    [
        chart(
            "latency",
            Topic::Latency,
            "Latency by number of clients",
            "Dot: p50. Crossbar: p99. Thin line: up to the maximum. Lower is better. Logarithmic \
             scale: each grid step is a factor.",
            Some(latency(run)),
        ),
        chart(
            "throughput",
            Topic::Delivery,
            "Deliveries by number of clients",
            "Total deliveries to all clients. The cross line marks the expected rate; a gap below \
             it is loss.",
            Some(throughput(run)),
        ),
        chart(
            "cpu",
            Topic::Cost,
            "CPU time per delivered record by number of clients",
            "CPU time per record delivered to one client. Solid, with value: the delivering \
             process. Pale: the broker in addition. Lower is better.",
            Some(cpu(run)),
        ),
        chart(
            "memory",
            Topic::Cost,
            "Memory per client",
            "Growth of the delivering process’s resident memory per connected client, without \
             kernel socket buffers. Lower is better.",
            memory(run),
        ),
        chart(
            "curve",
            Topic::Latency,
            "Latency by throughput",
            "Latency as throughput grows. Each point is one number of clients; the ring marks the \
             last sustained one. A line ends where the next load has no valid result.",
            curve(run, levels),
        ),
    ]
}

/// Returns the charts of the page that Markdown includes too.
pub(crate) fn chart_files(run: &Run) -> Vec<ChartFile> {
    let levels = view::levels(run);
    let is_grid = view::is_grid(run);
    let charts = by_clients(run, &levels).into_iter();
    // Grid points differ in more than the number of clients; a single level is a table.
    let has_levels = view::has_levels(run, &levels);
    let charts = charts.filter(|it| has_levels || (is_grid && it.file == "curve"));
    let charts = charts.map(|it| (it.file.to_owned(), it.title.to_owned(), it.svg));
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
        svg: svg::standalone(&svg.unwrap_or_default()),
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
