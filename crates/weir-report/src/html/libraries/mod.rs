//! Comparison of client libraries: setup, ratios, spread, latencies, resources and data quality.

mod charts;
mod data_quality;

use maud::{Markup, html};
use weir_stats::libraries::PAIRS_MIN;
use weir_stats::run::Run;

use super::element::{Section, facts, remarks};
use crate::libraries::{self, Group, LibraryReport, PUBLISHED_NOTE, PUBLISHED_SOURCE, TitledTable};
use crate::{format, view};

/// Returns all sections; none if the run compares no libraries.
pub(crate) fn sections(run: &Run) -> Vec<Section> {
    let Some(compared) = LibraryReport::of(run) else {
        return Vec::new();
    };
    let mut works: Vec<&str> = Vec::new();
    for group in &compared.groups {
        if !works.contains(&group.work) {
            works.push(group.work);
        }
    }
    let overview = overview(run, &compared);
    let mut sections = vec![Section::new("libraries", "Client libraries", overview)];
    sections.extend(works.into_iter().map(|work| work_section(&compared, work)));
    sections.extend(data_quality::sections(&compared));
    sections
}

fn overview(run: &Run, compared: &LibraryReport<'_>) -> Markup {
    let all = compared.libraries;
    let cells = all.cells.iter().filter(|cell| cell.skipped.is_none());
    let repetitions = cells.clone().map(|cell| cell.repetitions);
    let (least, most) = (
        repetitions.clone().min().unwrap_or(0),
        repetitions.max().unwrap_or(0),
    );
    let repetitions = match least == most {
        true => most.to_string(),
        false => format!("{least} to {most}"),
    };
    let first = compared.first_name();
    let explained = libraries::explained(compared);
    html! {
        p { "Profile " (libraries::profile(&all.profile)) }
        @if let Some(text) = libraries::aa_test(compared) { p.lead { (text) } }
        (libraries::drivers(compared))
        (facts([
            ("Cells", cells.count().to_string()),
            ("Repetitions", repetitions),
            ("Samples", format::count(all.samples.len() as u64)),
            ("Machine", view::machine(run)),
        ]))
        @if !compared.others.is_empty() {
            h3 { "Comparison with " (first) }
            (libraries::at_a_glance(compared))
        }
        p.caption {
            "Ratios are " b { (first) } " divided by the library next to it, in percent. Below "
            "100, " (first) " needs less, printed in bold. The " b { "median ratio" } " is the "
            "median over pairs of repetitions that ran one after the other. Its interval contains "
            "the true median in at least 95 of 100 cases, for any distribution; it needs at least "
            (PAIRS_MIN) " repetitions. If it contains 100, no difference is shown."
            (libraries::without_jni(compared))
        }
        @if !explained.is_empty() { h3 { "Fetch wait in small bursts" } }
        @for text in explained { p.explained { (text) } }
    }
}

fn swatch(compared: &LibraryReport<'_>, name: &str) -> Markup {
    html! { i class={ "swatch " (compared.slot(name)) } {} }
}

fn work_section(compared: &LibraryReport<'_>, work: &str) -> Section {
    let groups = || compared.groups.iter().filter(|group| group.work == work);
    let (id, title) = match work {
        "produce" => ("produce", "Produce"),
        "consume" => ("consume", "Consume"),
        "copy" => ("copy", "Copy a topic"),
        "roundtrip" => ("roundtrip", "Round trip"),
        _ => ("work", "Other operations"),
    };
    // They are apart if the profile measures something else.
    let mut published_apart = groups()
        .filter(|_| !compared.is_legacy())
        .filter_map(|group| published(compared, group));
    Section::new(
        id,
        title,
        html! {
            p.legend { @for driver in compared.all() {
                span { (swatch(compared, &driver.name)) (driver.name) } " "
            } } "\n"
            @for group in groups() { (group_tables(compared, group)) }
            @if let Some(published) = published_apart.next() { details {
                summary { "Published results (not measured by this profile)" } "\n"
                (published)
            } "\n" }
        },
    )
}

fn group_tables(compared: &LibraryReport<'_>, group: &Group<'_>) -> Markup {
    let quantity = group.headline();
    let skipped = group.skipped();
    let published = libraries::published_blocks(compared, group);
    let has_published = !published.is_empty();
    html! {
        h3.group-title { (group.title()) } "\n"
        div class="grid2 tables" { "\n"
            div.published-grid {
                (grid(group.averages(quantity, published)))
                @if has_published { (published_note()) }
            }
            (grid(group.medians(quantity)))
            @if let Some(cpu_time) = group.cpu_time() { (grid(cpu_time)) }
            @if let Some(jni_calls) = group.jni_calls() { (grid(jni_calls)) }
            @if compared.others.is_empty() { (grid(group.times(quantity))) }
        } "\n"
        p.caption { (caption(group)) } "\n"
        (remarks("", skipped.map(|(name, why)| html! { b { (name) } " was not measured: " (why) })))
        (charts::spread(compared, group))
        (charts::latencies(compared, group))
        details {
            summary { (group.title()) ": times and further results" } "\n"
            div class="grid2 tables" { "\n"
                (grid(group.times(quantity)))
                @for quantity in group.further() { (grid(group.medians(quantity))) }
                @if let Some(wire_bytes) = group.wire_bytes() { (grid(wire_bytes)) }
            }
        } "\n"
    }
}

fn caption(group: &Group<'_>) -> &'static str {
    match (group.work, group.headline().name) {
        ("consume", "drain_us") => {
            "Time from the first record to the last. Bursts below about 16 MB are in memory before \
             the first record is handed over, so compare large bursts. Start-up time is among the \
             further results."
        }
        ("consume", _) => {
            "From the assignment until all records are read and committed, including start-up and \
             waiting."
        }
        ("copy", _) => {
            "From the first record read to the delivery report of the last copy: reading and \
             writing at the same time."
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
    }
}

fn grid((title, table): TitledTable) -> Markup {
    html! { @if !table.is_empty() { div { h4 { (title) } "\n" (table) } "\n" } }
}

fn published(compared: &LibraryReport<'_>, group: &Group<'_>) -> Option<Markup> {
    let published = libraries::published(compared, group)?;
    Some(html! { div.published-grid {
        (grid(published))
        (published_note())
    } })
}

fn published_note() -> Markup {
    html! { p.caption {
        span class="badge warn" { "published: other hardware, through .NET" } " "
        (PUBLISHED_SOURCE) ". " (PUBLISHED_NOTE)
    } }
}
