//! Published results of a grid next to those of this run: one row per point and subject.

use std::fmt::Write as _;

use weir_stats::run::{ReferenceFigures, Run};

use crate::escape::Markup;
use crate::published::{self, CAPTION};
use crate::view::Level;

/// Writes the table, its caption and the end of the section.
pub(crate) fn points(
    out: &mut String,
    run: &Run,
    reference: &ReferenceFigures,
    levels: &[Level<'_>],
) {
    let points = published::points(run, reference, levels);
    head(out, &points.headings);
    for line in &points.lines {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td>",
            Markup(&line.label),
            Markup(&line.subject)
        );
        for (theirs, ours) in &line.figures {
            let _ = write!(
                out,
                "<td class=\"n first\">{}</td><td class=\"n own\">{}</td>",
                Markup(theirs),
                Markup(ours)
            );
        }
        out.push_str("</tr>\n");
    }
    let _ = writeln!(
        out,
        "</tbody></table></div>\n<p class=\"caption\">{CAPTION}</p>\n</section>"
    );
}

fn head(out: &mut String, headings: &[&str]) {
    out.push_str(
        "<div class=\"scroll\"><table class=\"published\">\n<thead>\n<tr><th rowspan=\"2\" \
         scope=\"col\">At</th>\
         <th rowspan=\"2\" scope=\"col\">served by</th>",
    );
    for heading in headings {
        let _ = write!(
            out,
            "<th class=\"g first\" colspan=\"2\" scope=\"colgroup\">{heading}</th>"
        );
    }
    out.push_str("</tr>\n<tr>");
    for _ in headings {
        out.push_str(
            "<th class=\"n first\" scope=\"col\">published</th><th class=\"n own\" \
             scope=\"col\">here</th>",
        );
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
}
