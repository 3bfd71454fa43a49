//! Table of the cheapest architecture per level, and a cost calculator in browsers with scripts.

use std::fmt::Write as _;

use weir_stats::run::Run;

use super::element::HtmlTable;
use crate::cost;

/// Writes the section, unless the run has no architectures to choose from.
pub(crate) fn section(out: &mut String, run: &Run) {
    let choices = cost::choices(run);
    if choices.is_empty() {
        return;
    }
    out.push_str(
        "<section id=\"decision\">\n<h2>Cost by architecture</h2>\n<div class=\"live\"></div>\n",
    );
    let mut table = HtmlTable::new(3, &cost::HEADINGS);
    for choice in &choices {
        table.row("", &cost::row(choice));
    }
    table.finish(out);
    let _ = writeln!(
        out,
        "<p class=\"caption\">{}</p>\n</section>",
        cost::CAPTION
    );
}
