//! Comparison of client libraries: setup, ratios, spread, latencies, resources and data quality.

mod charts;
mod data_quality;
mod tables;

use std::fmt::Write as _;

use weir_stats::run::Run;

use super::element::HtmlTable;
use crate::escape::Markup;
use crate::format;
use crate::libraries::{Group, LibraryReport, PUBLISHED_NOTE, PUBLISHED_SOURCE};

/// Writes all sections, unless the run compares no libraries.
pub(crate) fn sections(out: &mut String, run: &Run) {
    let Some(compared) = LibraryReport::of(run) else {
        return;
    };
    overview(out, run, &compared);
    let mut works: Vec<&str> = Vec::new();
    for group in &compared.groups {
        if !works.contains(&group.work) {
            works.push(group.work);
        }
    }
    for work in works {
        work_section(out, &compared, work);
    }
    data_quality::resources(out, &compared);
    data_quality::settings(out, &compared);
    data_quality::repetitions(out, &compared);
}

fn overview(out: &mut String, run: &Run, compared: &LibraryReport<'_>) {
    let libraries = compared.libraries;
    let _ = writeln!(
        out,
        "<section id=\"libraries\">\n<h2>Client libraries</h2>\n<p>Profile {}</p>",
        Markup(crate::libraries::profile(&libraries.profile))
    );
    if let Some(text) = crate::libraries::aa_test(compared) {
        let _ = writeln!(out, "<p class=\"lead\">{}</p>", Markup(&text));
    }
    drivers(out, compared);
    let cells = libraries.cells.iter().filter(|cell| cell.skipped.is_none());
    let repetitions = cells.clone().map(|cell| cell.repetitions);
    let (least, most) = (
        repetitions.clone().min().unwrap_or(0),
        repetitions.max().unwrap_or(0),
    );
    let repetitions = match least == most {
        true => most.to_string(),
        false => format!("{least} to {most}"),
    };
    let machine = &run.machine;
    let facts = [
        ("Cells", cells.count().to_string()),
        ("Repetitions", repetitions),
        ("Samples", format::count(libraries.samples.len() as u64)),
        (
            "Machine",
            format!(
                "{}, {} cores, {}",
                machine.cpu_model,
                machine.cpu_cores,
                format::bytes(machine.memory_bytes as f64)
            ),
        ),
    ];
    out.push_str("<dl class=\"facts\">");
    for (label, text) in facts {
        let _ = write!(out, "<div><dt>{label}</dt><dd>{}</dd></div>", Markup(&text));
    }
    out.push_str("</dl>\n");
    if !compared.others.is_empty() {
        let (headings, rows) = crate::libraries::at_a_glance(compared);
        let _ = writeln!(
            out,
            "<h3>Comparison with {}</h3>",
            Markup(compared.first_name())
        );
        let mut table = HtmlTable::new(headings.len(), &headings);
        for row in rows {
            table.row("", &row);
        }
        table.finish(out);
    }
    let _ = writeln!(
        out,
        concat!(
            "<p class=\"caption\">Ratios are <b>{0}</b> divided by the library next to it, in \
             percent. Below 100, {0} ",
            "needs less, printed in bold. The <b>median ratio</b> is the median over pairs of \
             repetitions that ",
            "ran one after the other. Its interval contains the true median in at least 95 of 100 \
             cases, ",
            "for any distribution; it needs at least {1} repetitions. If it contains 100, no \
             difference is shown. ",
            "No .NET was involved: calls through JNI could not be counted.</p>"
        ),
        Markup(compared.first_name()),
        weir_stats::libraries::PAIRS_MIN
    );
    let explained = crate::libraries::explained(compared);
    if !explained.is_empty() {
        out.push_str("<h3>Fetch wait in small bursts</h3>\n");
    }
    for text in explained {
        let _ = writeln!(out, "<p class=\"explained\">{}</p>", Markup(&text));
    }
    out.push_str("</section>\n");
}

fn drivers(out: &mut String, compared: &LibraryReport<'_>) {
    out.push_str(
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Driver</th><th \
         scope=\"col\">library</th>\
         <th scope=\"col\">binding</th><th scope=\"col\">runtime</th><th scope=\"col\" \
         class=\"n\">warm-up rounds</th>\
         <th scope=\"col\"></th></tr></thead>\n<tbody>\n",
    );
    for driver in &compared.libraries.drivers {
        let state = match (&driver.failed, driver.is_warm_up_complete()) {
            (Some(why), _) => format!("<span class=\"badge bad\">abandoned</span> {}", Markup(why)),
            (None, false) => {
                "<span class=\"badge warn\">warm-up reached no steady state</span>".to_owned()
            }
            (None, true) => String::new(),
        };
        let _ = writeln!(
            out,
            concat!(
                "<tr><th scope=\"row\"><i class=\"swatch {}\"></i>{}</th><td>{} \
                 {}</td><td>{}</td><td>{}</td>",
                "<td class=\"n\">{}</td><td class=\"reason\">{}</td></tr>"
            ),
            compared.slot(&driver.name),
            Markup(&driver.name),
            Markup(&driver.library),
            Markup(&driver.library_version),
            Markup(&driver.binding),
            Markup(&driver.runtime),
            driver.warm_up_rounds,
            state
        );
    }
    out.push_str("</tbody></table></div>\n");
}

fn work_section(out: &mut String, compared: &LibraryReport<'_>, work: &str) {
    let groups: Vec<&Group<'_>> = compared
        .groups
        .iter()
        .filter(|group| group.work == work)
        .collect();
    let (id, title) = match work {
        "produce" => ("produce", "Produce"),
        "consume" => ("consume", "Consume"),
        "roundtrip" => ("roundtrip", "Roundtrip"),
        _ => ("work", "Other operations"),
    };
    let _ = writeln!(out, "<section id=\"{id}\">\n<h2>{title}</h2>");
    legend(out, compared);
    let is_legacy = compared.libraries.profile == "legacy";
    for group in &groups {
        let _ = writeln!(
            out,
            "<h3 class=\"group-title\">{}</h3>",
            Markup(&group.title())
        );
        let quantity = group.headline();
        out.push_str("<div class=\"grid2 tables\">\n");
        tables::grid(out, group, &group.averages(quantity));
        if is_legacy {
            published(out, group);
        }
        tables::grid(out, group, &group.medians(quantity));
        if let Some(cpu_time) = group.cpu_time() {
            tables::grid(out, group, &cpu_time);
        }
        if compared.others.is_empty() {
            tables::grid(out, group, &group.times(quantity));
        }
        out.push_str("</div>\n");
        caption(out, group);
        skipped(out, group);
        charts::spread(out, compared, group);
        charts::latencies(out, compared, group);
        further(out, group);
    }
    if !is_legacy {
        published_apart(out, &groups);
    }
    out.push_str("</section>\n");
}

/// Writes the colour of each library, for all charts of a section.
fn legend(out: &mut String, compared: &LibraryReport<'_>) {
    out.push_str("<p class=\"legend\">");
    for driver in compared.first.iter().chain(&compared.others) {
        let _ = write!(
            out,
            "<span><i class=\"swatch {}\"></i>{}</span> ",
            compared.slot(&driver.name),
            Markup(&driver.name)
        );
    }
    out.push_str("</p>\n");
}

fn caption(out: &mut String, group: &Group<'_>) {
    let text = match (group.work, group.headline().name) {
        ("consume", "drain_us") => {
            "Time from the first record to the last. Bursts below about 16 MB are in memory before \
             the first record is handed over, so compare large bursts. Start-up time is among the \
             further results."
        }
        ("consume", _) => {
            "From the assignment until all records are read and committed, including start-up and \
             waiting."
        }
        ("roundtrip", _) if group.mode == "burst" => {
            "All records are sent at once. The mean latency is about half the duration of the \
             burst, so it measures throughput."
        }
        ("roundtrip", _) => {
            "Latency from the due time of each record, so a late sender hides nothing. Pacing is \
             the schedule lag."
        }
        _ => "Until the last delivery report, not until a flush returned.",
    };
    let _ = writeln!(out, "<p class=\"caption\">{text}</p>");
}

fn skipped(out: &mut String, group: &Group<'_>) {
    let cells = group.cells.iter();
    let items: Vec<String> = cells
        .filter_map(|view| {
            let why = view.cell.skipped.as_ref()?;
            Some(format!(
                "<li><b>{}</b> was not measured: {}</li>",
                Markup(&view.cell.name),
                Markup(why)
            ))
        })
        .collect();
    if !items.is_empty() {
        let _ = writeln!(out, "<ul class=\"remarks\">{}</ul>", items.concat());
    }
}

/// Writes absolute times, and ratios of the other metrics.
fn further(out: &mut String, group: &Group<'_>) {
    let _ = write!(
        out,
        "<details><summary>{}: times and further results</summary>\n<div class=\"grid2 tables\">\n",
        Markup(&group.title())
    );
    tables::grid(out, group, &group.times(group.headline()));
    for quantity in group.further() {
        tables::grid(out, group, &group.medians(quantity));
    }
    out.push_str("</div></details>\n");
}

fn published(out: &mut String, group: &Group<'_>) {
    if let Some(grid) = crate::libraries::published(group) {
        out.push_str("<div class=\"published-grid\">");
        tables::grid(out, group, &grid);
        let _ = writeln!(
            out,
            "<p class=\"caption\"><span class=\"badge warn\">other hardware, through .NET</span> \
             {}. {}</p></div>",
            Markup(PUBLISHED_SOURCE),
            Markup(PUBLISHED_NOTE)
        );
    }
}

/// Writes the published tables separately if the profile measures something else.
fn published_apart(out: &mut String, groups: &[&Group<'_>]) {
    let has = |group: &&&Group<'_>| crate::libraries::published(group).is_some();
    if let Some(group) = groups.iter().find(has) {
        out.push_str(
            "<details><summary>Published results (not measured by this profile)</summary>\n",
        );
        published(out, group);
        out.push_str("</details>\n");
    }
}
