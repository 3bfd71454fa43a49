//! The last sections of the page: resource usage by process role, configuration, raw values.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use weir_stats::run::{CellStatus, Run};

use super::element::{Section, chart, facts, part, remarks};
use crate::chart::diagram;
use crate::format::{self, TimeUnit};
use crate::table::ReportTable;
use crate::{shared, view};

pub(crate) fn usage(run: &Run) -> Markup {
    let usage = shared::usage(run);
    html! { @if !usage.is_empty() {
        (part("usage", "Resource usage by process role", &html! {
            (usage)
            p.caption {
                "Sampled during the measured window, including load generator and clients. "
                b { "Waits" } " and " b { "preemptions" } " are context switches. A marked row is \
                the process role that limited its cell." (network_sources(run))
            }
        }))
    } }
}

/// Returns how network bytes were measured: once if it is the same for all roles, else by role.
fn network_sources(run: &Run) -> String {
    let mut roles_by_source: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for usage in run.cells.iter().flat_map(|cell| &cell.roles) {
        let roles = roles_by_source.entry(&usage.network_source).or_default();
        roles.insert(&usage.role);
    }
    roles_by_source.remove("");
    let is_single = roles_by_source.len() == 1;
    let texts = roles_by_source
        .into_iter()
        .map(|(source, roles)| match is_single {
            true => source.to_owned(),
            false => {
                let roles: Vec<&str> = roles.into_iter().collect();
                format!("{} {source}", roles.join(", "))
            }
        });
    match texts.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => none,
        texts => format!(" Network: {texts}."),
    }
}

pub(crate) fn configuration(run: &Run) -> Section {
    let content = html! {
        @if !run.cells.is_empty() { (part("setup", "Test setup", &setup(run))) }
        pre { code { (command(run)) } }
        div."grid2 settings" { @for (title, values) in shared::configuration(run) {
            div.group {
                h3 { (title) }
                dl { @for (name, value) in values { dt { (name) } dd { (value) } "\n" } }
            }
        } }
    };
    Section::new("configuration", "Configuration", content)
}

/// Returns the processes, their hosts, and settings that are equal in all cells.
fn setup(run: &Run) -> Markup {
    let caption = "Data flows from left to right, one lane per architecture. Each architecture is \
                   measured separately with a fresh topic. The line below shows the span of the \
                   response time.";
    let machine = ("Machine", view::machine(run));
    html! {
        @if !run.placement.is_empty() { (chart(&diagram(run), caption)) }
        (facts(view::facts(run).into_iter().chain([machine])))
    }
}

fn command(run: &Run) -> String {
    let is_special = |c: char| c.is_whitespace() || "'\"$`\\&|;<>".contains(c);
    let quoted =
        run.command_line
            .iter()
            .map(|word| match word.is_empty() || word.contains(is_special) {
                true => format!("'{}'", word.replace('\'', r"'\''")),
                false => word.clone(),
            });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns the values of every repetition, all stages.
pub(crate) fn raw(run: &Run) -> Section {
    let all = run.cells.iter().flat_map(|cell| cell.latency.values());
    let unit = TimeUnit::for_values_us(all.filter_map(|summary| summary.p50_us));
    let headings = "cell|stage|values|mean|sd|min|p50|p90|p95|p99|p99.9|p99.99|max|negative";
    let mut table = ReportTable::headed(2, headings);
    for cell in view::cells(run) {
        let class = if cell.is_valid() { "" } else { "invalid" };
        for (stage, it) in &cell.latency {
            let mut fields = vec![cell.id(), stage.clone(), format::count(it.count)];
            fields.extend(view::times_us(it).map(|us| unit.show(us)));
            fields.push(format::count(it.negative_count));
            table.row(class, fields);
        }
    }
    let content = html! {
        p { "Latency of every repetition; cells.csv and series.csv in the run directory have all \
             values." }
        (table)
        p.caption {
            "Latencies in " (unit.name()) ". " b { "response" } ": due time to receipt. "
            b { "service" } ": send to receipt. " b { "schedule_lag" } ": due time to send. "
            b { "publish_ack" } ": send to the broker’s acknowledgement. A percentile needs enough \
            samples: 299 for p99, 2,995 for p99.9, 29,956 for p99.99." (resolution(run))
        }
        (remarks("note", notes(run)))
    };
    Section::new("raw", "Raw values", content).closed()
}

fn resolution(run: &Run) -> String {
    let responses = run.cells.iter().filter_map(|cell| cell.response());
    match responses.map(|it| it.resolution_us).fold(0.0, f64::max) {
        fine if fine < 1.0 => String::new(),
        us => format!(" Timestamp resolution: {}.", format::duration_us(us)),
    }
}

fn notes(run: &Run) -> impl Iterator<Item = Markup> {
    run.cells.iter().flat_map(|cell| {
        let reasons = match &cell.status {
            CellStatus::Valid => &[][..],
            CellStatus::Invalid { reasons } => reasons,
            CellStatus::Skipped { reason } => std::slice::from_ref(reason),
        };
        let texts = reasons.iter().chain(&cell.notes);
        texts.map(|text| html! { b { (cell.id()) } " " (text) })
    })
}
