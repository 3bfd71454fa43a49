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
    let mut files = Vec::new();
    let mut add = |file: &str, title: &str, svg: Option<String>| {
        files.extend(svg.map(|svg| ChartFile {
            file: file.to_owned(),
            title: title.to_owned(),
            svg: svg::standalone(&svg, plot::WIDTH, plot::HEIGHT),
        }));
    };
    // Grid points differ in more than the number of clients.
    if !view::is_grid(run) {
        add(
            "latency.svg",
            "Latency by number of clients",
            Some(latency(run)),
        );
        add(
            "throughput.svg",
            "Deliveries by number of clients",
            Some(throughput(run)),
        );
        add(
            "cpu.svg",
            "CPU time per delivered record by number of clients",
            Some(cpu(run)),
        );
        add("memory.svg", "Memory per client", memory(run));
    }
    add("curve.svg", "Latency by throughput", curve(run, &levels));
    for (name, cells) in sweep::by_subject(run) {
        for chart in sweep::sweeps(&cells) {
            let title = format!("{name}: {}", chart.title);
            add(
                &format!("{}.svg", file_part(&title)),
                &title,
                Some(chart.svg),
            );
        }
    }
    files
}

/// Returns the letters and digits of a title as a file name.
fn file_part(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase().chars().take(80).collect()
}
