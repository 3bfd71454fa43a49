//! Which architecture at how many clients, and what it costs: a table for every level, and a reckoner on screens.

use std::fmt::Write as _;

use weir_stats::run::Run;

use super::element::HtmlTable;
use crate::cost;

/// The section; nothing if the run leaves no choice.
pub(crate) fn section(out: &mut String, run: &Run) {
    let choices = cost::choices(run);
    if choices.is_empty() {
        return;
    }
    out.push_str(
        "<section id=\"decision\">\n<h2>Which architecture, and what it costs</h2>\n<div class=\"live\"></div>\n",
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
