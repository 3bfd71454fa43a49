//! Tables with value sizes as columns and burst sizes as rows.

use std::fmt::Write as _;

use crate::escape::Markup;
use crate::format::NONE;
use crate::libraries::{Grid, Group, TableCell};

/// Writes one table with its title, unless it is empty.
pub(super) fn grid(out: &mut String, group: &Group<'_>, grid: &Grid) {
    if grid.blocks.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<div><h4>{}</h4>\n<div class=\"scroll\"><table class=\"results ratios\">\n\
         <thead><tr><th scope=\"col\">{}</th>",
        Markup(&grid.title),
        Markup(group.corner())
    );
    for column in &grid.columns {
        let _ = write!(out, "<th scope=\"col\" class=\"n\">{}</th>", Markup(column));
    }
    out.push_str("</tr></thead>\n");
    for block in &grid.blocks {
        let _ = writeln!(
            out,
            "<tbody>\n<tr class=\"level\"><th scope=\"rowgroup\">{}</th><td \
             colspan=\"{}\"></td></tr>",
            Markup(&block.title),
            grid.columns.len()
        );
        for (label, entries) in &block.rows {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", Markup(label));
            for entry in entries {
                cell(out, entry.as_ref());
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n");
    }
    out.push_str("</table></div></div>\n");
}

fn cell(out: &mut String, entry: Option<&TableCell>) {
    let Some(entry) = entry else {
        let _ = write!(out, "<td class=\"n open\">{NONE}</td>");
        return;
    };
    let class = match (entry.first_better, entry.is_open) {
        (true, _) => "n strong",
        (false, true) => "n open",
        (false, false) => "n",
    };
    let _ = write!(out, "<td class=\"{class}\">{}", Markup(&entry.text));
    for more in &entry.more {
        let _ = write!(out, "<small>{}</small>", Markup(more));
    }
    out.push_str("</td>");
}
