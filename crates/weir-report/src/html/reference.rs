//! Published results next to those of this run: one row per number of clients, one block per
//! series.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weir_stats::run::{ReferenceFigures, ReferenceRow, Run};

use super::reference_grid;
use crate::escape::Markup;
use crate::format::{self, NONE};
use crate::view::{self, Level};

/// Writes the section; the heading says that the published results are from other hardware.
pub(crate) fn section(out: &mut String, run: &Run, levels: &[Level<'_>]) {
    let Some(reference) = &run.reference else {
        return;
    };
    let _ = writeln!(
        out,
        concat!(
            "<section id=\"reference\">\n<h2>Published results <span class=\"badge warn\">",
            "other hardware</span></h2>\n<p>{}. Measured on {}. {}</p>"
        ),
        Markup(&reference.source),
        Markup(&reference.hardware),
        Markup(&reference.note)
    );
    if view::is_grid(run) {
        reference_grid::points(out, run, reference, levels);
        return;
    }
    let series = series(reference);
    head(out, &series);
    let mut clients: BTreeSet<u64> = reference.rows.iter().map(|row| row.clients).collect();
    clients.extend(levels.iter().map(|level| level.clients));
    out.push_str("<tbody>\n");
    for clients in clients {
        line(out, clients, &series, reference, levels);
    }
    out.push_str("</tbody></table></div>\n");
    out.push_str(
        "<p class=\"caption\">Mean response time in ms with its standard deviation, and total \
         Mbit/s received by clients. <b>Here</b>: this run, same number of clients and \
         architecture.</p>\n</section>\n",
    );
}

/// Returns the published series in their order, each with the corresponding architecture.
fn series(reference: &ReferenceFigures) -> Vec<(&str, Option<&str>)> {
    let mut series: Vec<(&str, Option<&str>)> = Vec::new();
    for row in &reference.rows {
        if !series.iter().any(|(name, _)| *name == row.series) {
            series.push((&row.series, row.architecture.as_deref()));
        }
    }
    series
}

fn head(out: &mut String, series: &[(&str, Option<&str>)]) {
    out.push_str(
        "<div class=\"scroll\"><table class=\"published\">\n<thead>\n<tr>\
         <th rowspan=\"2\" scope=\"col\">Clients</th>",
    );
    for (name, own) in series {
        let columns = if own.is_some() { 4 } else { 2 };
        let _ = write!(
            out,
            "<th class=\"g first\" colspan=\"{columns}\" scope=\"colgroup\">{}</th>",
            Markup(&name.replace('_', " "))
        );
    }
    out.push_str("</tr>\n<tr>");
    for (_, own) in series {
        out.push_str(
            "<th class=\"n first\" scope=\"col\">published</th><th class=\"n\" \
             scope=\"col\">Mbit/s</th>",
        );
        if let Some(own) = own {
            let _ = write!(
                out,
                "<th class=\"n own\" scope=\"col\">here: {}</th><th class=\"n own\" \
                 scope=\"col\">Mbit/s</th>",
                Markup(own)
            );
        }
    }
    out.push_str("</tr>\n</thead>\n");
}

fn line(
    out: &mut String,
    clients: u64,
    series: &[(&str, Option<&str>)],
    reference: &ReferenceFigures,
    levels: &[Level<'_>],
) {
    let _ = write!(out, "<tr><th scope=\"row\">{}</th>", format::count(clients));
    for (name, own) in series {
        let row = reference
            .rows
            .iter()
            .find(|row| row.series == *name && row.clients == clients);
        let _ = write!(
            out,
            "<td class=\"n first\">{}</td><td class=\"n\">{}</td>",
            row.map_or_else(String::new, theirs),
            row.and_then(|row| row.throughput_bit_per_s)
                .map_or_else(String::new, |bits| format::number(Some(bits as f64 / 1e6)))
        );
        if let Some(own) = own {
            let found = levels
                .iter()
                .flat_map(Level::valid)
                .find(|row| row.clients() == clients && row.name == *own);
            let (mean, mbit) = found.map_or_else(Default::default, |row| {
                let ms = |us: Option<f64>| format::number(us.map(|us| us / 1e3));
                let figures = &row.figures;
                (
                    format!("{} ({})", ms(figures.mean_us), ms(figures.stddev_us)),
                    format::number(figures.mbit_per_s),
                )
            });
            let _ = write!(
                out,
                "<td class=\"n own\">{mean}</td><td class=\"n own\">{mbit}</td>"
            );
        }
    }
    out.push_str("</tr>\n");
}

fn theirs(row: &ReferenceRow) -> String {
    if !row.sustained {
        return "not sustained".to_owned();
    }
    let ms = |ms: Option<u64>| ms.map_or_else(|| NONE.to_owned(), format::count);
    format!(
        "{} ({})",
        ms(row.latency_mean_ms),
        ms(row.latency_stddev_ms)
    )
}
