//! Numbers of comparisons of client libraries.

use serde::Deserialize;
use weir_stats::libraries::{self, CellView, Quantity};

use super::source::{one, runs_below};

/// Median of a library in a cell. With `versus` instead of `of`: the ratio of the first library to
/// that one in percent, then the bounds of its interval, if it has one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LibrarySource {
    /// Directory of the run.
    libraries: String,
    cell: String,
    #[serde(default)]
    of: String,
    #[serde(default)]
    versus: Option<String>,
    /// Absent: what tables of the cell show first.
    #[serde(default)]
    quantity: Option<String>,
    /// Unit of the run divided by that of the document.
    #[serde(default = "one")]
    times: f64,
}

impl LibrarySource {
    pub(super) fn numbers(&self) -> Result<Vec<f64>, String> {
        let (run, cell) = (&self.libraries, &self.cell);
        let runs = runs_below(run)?;
        let all = runs.iter().filter_map(|run| run.libraries.as_ref());
        let views: Vec<_> = all.flat_map(libraries::cells).collect();
        let view = views.iter().find(|view| view.cell.name == *cell);
        let view = view.ok_or_else(|| format!("{run} has no cell {cell}"))?;
        let quantity = match &self.quantity {
            Some(name) => Quantity::named(name).ok_or_else(|| format!("no quantity {name}"))?,
            None => view.headline(),
        };
        let found = self.found(view, quantity);
        found.ok_or_else(|| format!("{run} has no such result of {cell}"))
    }

    fn found(&self, view: &CellView<'_>, quantity: &'static Quantity) -> Option<Vec<f64>> {
        let Some(versus) = &self.versus else {
            let median = view.driver(&self.of)?.statistics(quantity)?.median;
            return Some(vec![median * self.times]);
        };
        let pairs = view.compare(quantity, versus)?.pairs?;
        let bounds = pairs.bounds.into_iter().flat_map(|(low, high)| [low, high]);
        Some([pairs.percent].into_iter().chain(bounds).collect())
    }
}
