//! Memory and threads of the libraries, unequal settings, and invalid or noisy repetitions.

use std::fmt::Write as _;

use super::super::element::HtmlTable;
use crate::libraries::{self, LibraryReport, RESOURCE_HEADINGS};

pub(super) fn resources(out: &mut String, compared: &LibraryReport<'_>) {
    let rows = libraries::resources(compared);
    if rows.is_empty() {
        return;
    }
    out.push_str("<section id=\"resources\">\n<h2>Memory and threads</h2>\n");
    let mut table = HtmlTable::new(1, RESOURCE_HEADINGS);
    for row in rows {
        table.row("", &row);
    }
    table.finish(out);
    out.push_str(
        "<p class=\"caption\">Whole driver process, maximum of each repetition. A runtime with a \
         fixed heap shows the size of that heap.</p>\n</section>\n",
    );
}

pub(super) fn settings(out: &mut String, compared: &LibraryReport<'_>) {
    out.push_str("<section id=\"unequal\">\n<h2>Unequal settings</h2>\n");
    let unequal = weir_stats::libraries::unequal_settings(compared.libraries);
    if unequal.is_empty() {
        out.push_str("<p>None: every library reported the requested value.</p>\n");
    } else {
        let headings = libraries::setting_headings(compared);
        let mut table = HtmlTable::new(headings.len(), &headings);
        for setting in &unequal {
            table.row("", libraries::setting_fields(compared, setting));
        }
        table.finish(out);
        out.push_str(
            "<p class=\"caption\">Values reported by each library after configuration. Settings \
             that are equal everywhere are in run.json.</p>\n",
        );
    }
    out.push_str("</section>\n");
}

pub(super) fn repetitions(out: &mut String, compared: &LibraryReport<'_>) {
    out.push_str("<section id=\"data-quality\">\n<h2>Invalid and noisy repetitions</h2>\n");
    let (rows, more) = libraries::questionable_repetitions(compared, ROWS_MAX);
    let noisy = libraries::without_noisy(compared);
    if rows.is_empty() && noisy.is_empty() {
        out.push_str("<p>None.</p>\n");
    }
    if !rows.is_empty() {
        let mut table = HtmlTable::new(4, ["Cell", "library", "repetition", "reason"]);
        for row in rows {
            table.row("", &row);
        }
        table.finish(out);
        if more > 0 {
            let _ = writeln!(
                out,
                "<p class=\"caption\">{more} more are in libraries.jsonl.</p>"
            );
        }
    }
    if !noisy.is_empty() {
        out.push_str("<h3>Main ratio with and without noisy repetitions</h3>\n");
        let headings = [
            "Cell",
            "library",
            "noisy pairs",
            "with them, %",
            "without, %",
        ];
        let mut table = HtmlTable::new(2, headings);
        for row in noisy {
            table.row("", &row);
        }
        table.finish(out);
        out.push_str(
            "<p class=\"caption\">Noisy: processes other than the broker, the driver and the \
             benchmarking tool used more than 10 % of the machine.</p>\n",
        );
    }
    out.push_str("</section>\n");
}

const ROWS_MAX: usize = 100;
