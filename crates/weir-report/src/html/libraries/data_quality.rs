//! What the libraries took, what was unequal, and which repetitions to doubt.

use std::fmt::Write as _;

use super::super::element::HtmlTable;
use super::table_of;
use crate::libraries::{self, LibraryReport, RESOURCE_HEADINGS};

pub(super) fn resources(out: &mut String, compared: &LibraryReport<'_>) {
    let rows = libraries::resources(compared);
    if rows.is_empty() {
        return;
    }
    out.push_str("<section id=\"resources\">\n<h2>Memory and threads</h2>\n");
    let mut table = HtmlTable::new(1, &RESOURCE_HEADINGS);
    for row in rows {
        table.row("", &row);
    }
    table.finish(out);
    out.push_str(
        "<p class=\"caption\">Of the driver’s whole process, the largest of each repetition: a runtime with a fixed heap \
         shows that heap.</p>\n</section>\n",
    );
}

pub(super) fn settings(out: &mut String, compared: &LibraryReport<'_>) {
    out.push_str("<section id=\"unequal\">\n<h2>Settings that could not be made equal</h2>\n");
    let unequal = weir_stats::libraries::unequal_settings(compared.libraries);
    if unequal.is_empty() {
        out.push_str("<p>None: every library told the value that was asked for.</p>\n");
    } else {
        let headings = libraries::setting_headings(compared);
        let mut table = table_of(headings.len(), &headings);
        for setting in &unequal {
            table.row("", &libraries::setting_fields(compared, setting));
        }
        table.finish(out);
        out.push_str(
            "<p class=\"caption\">As each library told them after it was configured. Settings that are the same \
             everywhere are in run.json.</p>\n",
        );
    }
    out.push_str("</section>\n");
}

pub(super) fn repetitions(out: &mut String, compared: &LibraryReport<'_>) {
    out.push_str("<section id=\"doubts\">\n<h2>Invalid and noisy repetitions</h2>\n");
    let (rows, more) = libraries::doubtful(compared, ROWS_MAX);
    let noisy = libraries::without_noisy(compared);
    if rows.is_empty() && noisy.is_empty() {
        out.push_str("<p>None.</p>\n");
    }
    if !rows.is_empty() {
        let mut table = HtmlTable::new(4, &["Cell", "library", "repetition", "what is wrong"]);
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
        out.push_str("<h3>The main ratio with noisy repetitions and without</h3>\n");
        let headings = [
            "Cell",
            "beside",
            "noisy pairs",
            "with them, %",
            "without, %",
        ];
        let mut table = HtmlTable::new(2, &headings);
        for row in noisy {
            table.row("", &row);
        }
        table.finish(out);
        out.push_str(
            "<p class=\"caption\">Noisy: processes other than the broker, the driver and this program had more than 10 % of \
             the machine.</p>\n",
        );
    }
    out.push_str("</section>\n");
}

const ROWS_MAX: usize = 100;
