//! Tables that Markdown and HTML share.

use weir_stats::run::{Cell, DerivedFrom, FindMax, FindMaxPhase, RoleUsage, Run};

use crate::chart::sweep::words;
use crate::format::{self, kilobytes, maybe_count, megabytes, number};
use crate::table::ReportTable;
use crate::view;

pub(crate) fn derived(run: &Run) -> ReportTable {
    let mut table = ReportTable::headed(5, "result|of|value|derivation|from");
    for answer in &run.derived {
        let basis = match answer.basis {
            DerivedFrom::Measured => "measured",
            DerivedFrom::Computed => "computed",
        };
        let value = match answer.value {
            Some(value) => format!("{} {}", format::figure(Some(value)), answer.unit),
            None => "not available in this run".to_owned(),
        };
        let name = words(&answer.name);
        let row: [&str; 5] = [&name, &answer.of, &value, basis, &answer.derivation];
        table.row("", row);
    }
    table
}

/// Returns a search and, in an A/A test, the second one.
pub(crate) fn searches(search: &FindMax) -> impl Iterator<Item = &FindMax> {
    std::iter::once(search).chain(search.again.as_deref())
}

pub(crate) fn steps(search: &FindMax) -> ReportTable {
    let variable = words(&search.variable).replace('|', "/");
    let headings = format!("{variable}|phase|sustained|cell|saturated|reason");
    let mut table = ReportTable::headed(6, &headings);
    for step in &search.steps {
        let phase = match step.phase {
            FindMaxPhase::Bracket => "bracket",
            FindMaxPhase::Bisect => "bisect",
            FindMaxPhase::Confirm => "confirm",
            FindMaxPhase::ConfirmAbove => "confirm that the next load is not sustained",
        };
        let (class, result) = match step.sustained {
            Some(true) => ("", "✓ yes"),
            Some(false) => ("marked", "✗ no"),
            None => ("invalid", "not measured"),
        };
        let value = format::figure(Some(step.value));
        let role = step.saturated_role.as_deref().unwrap_or_default();
        let reason = step.reason.as_deref().unwrap_or_default();
        table.row(class, [&value, phase, result, &step.cell, role, reason]);
    }
    table
}

/// Returns everything needed to repeat the run except its command: titles, each with names and
/// values.
pub(crate) fn configuration(run: &Run) -> Vec<(&str, Vec<(&str, String)>)> {
    let it = &run.machine;
    let machine = [
        ("processor", it.cpu_model.clone()),
        ("cores", it.cpu_cores.to_string()),
        ("memory", format::bytes(it.memory_bytes as f64)),
        ("system", it.os.clone()),
        ("kernel", it.kernel.clone()),
    ];
    let placement = run.placement.iter().map(|it| {
        let comma = if it.description.is_empty() { "" } else { ", " };
        let text = format!("{} × on {}{comma}{}", it.processes, it.host, it.description);
        (it.role.as_str(), text)
    });
    let versions = run
        .versions
        .iter()
        .map(|(name, text)| (name.as_str(), text.clone()));
    let versions = [("weir", run.weir_version.clone())]
        .into_iter()
        .chain(versions);
    let mut groups = vec![
        ("machine", machine.to_vec()),
        ("placement", placement.collect()),
        ("versions", versions.collect()),
    ];
    groups.extend(run.settings.iter().map(|group| {
        let settings = group.settings.iter();
        let settings = settings.map(|it| (it.name.as_str(), it.value.clone()));
        (group.part.as_str(), settings.collect())
    }));
    let files = run
        .files
        .iter()
        .map(|it| (it.path.as_str(), it.description.clone()));
    groups.push(("files of the run directory", files.collect()));
    groups.retain(|(_, values)| !values.is_empty());
    groups
}

pub(crate) fn client_errors(run: &Run) -> ReportTable {
    let mut table = ReportTable::headed(2, "cell|error|count");
    for cell in view::cells(run) {
        for (text, times) in cell.delivery.iter().flat_map(|it| &it.errors) {
            table.row("", [&cell.id(), text, &format::count(*times)]);
        }
    }
    table
}

/// Returns the result of each SDK client, and `true` if it passed.
pub(crate) fn probes(run: &Run) -> Vec<(bool, String)> {
    let probe = |cell: &Cell| {
        let it = cell.probe.as_ref()?;
        // The few updates do not support higher percentiles.
        let late = match it.latency.as_ref().map(|it| (it.p99_us, it.max_us)) {
            Some((Some(us), _)) => format!(", p99 {}", format::duration_us(us)),
            Some((None, Some(us))) => format!(", max {}", format::duration_us(us)),
            _ => String::new(),
        };
        let [updates, lost, dup] = [it.updates, it.lost, it.duplicated].map(format::count);
        let text = format!(
            "{}, {} {}: {updates} updates, {lost} lost, {dup} duplicated{late}. {}",
            cell.id(),
            it.sdk,
            it.version,
            it.status_changes.join(" → ")
        );
        Some((it.ok, text))
    };
    view::cells(run).into_iter().filter_map(probe).collect()
}

pub(crate) fn delivery(run: &Run) -> ReportTable {
    let headings = "cell|expected|delivered|lost|dup|reord|conflated|unchecked|disconnects";
    let mut table = ReportTable::headed(1, headings);
    for cell in view::cells(run) {
        let Some(it) = &cell.delivery else { continue };
        let is_faulty = it.lost + it.duplicated + it.reordered > 0;
        let class = match (cell.is_valid(), is_faulty) {
            (false, _) => "invalid",
            (true, true) => "marked",
            (true, false) => "",
        };
        let counts = [
            it.expected,
            it.delivered,
            it.lost,
            it.duplicated,
            it.reordered,
            it.conflated,
            it.unchecked,
            it.disconnects,
        ];
        let counts = counts.map(format::count);
        table.row(class, [cell.id()].into_iter().chain(counts));
    }
    table
}

type UsageField = fn(&RoleUsage) -> String;

const USAGE: [(&str, UsageField); 12] = [
    ("role", |it| match it.processes {
        0 | 1 => it.role.clone(),
        more => format!("{} × {more}", it.role),
    }),
    ("cores", |it| number(it.cpu_cores_mean)),
    ("CPU µs/rec", |it| number(it.cpu_us_per_delivered)),
    ("start MB", |it| megabytes(it.rss_start_bytes)),
    ("max MB", |it| megabytes(it.rss_max_bytes)),
    ("kB/client", |it| kilobytes(it.user_memory_per_client_bytes)),
    ("threads", |it| maybe_count(it.threads_max)),
    ("busiest", |it| {
        match (&it.busiest_thread, it.busiest_thread_cores) {
            (Some(name), Some(cores)) => format!("{name} {:.0} %", cores * 100.0),
            _ => format::NONE.to_owned(),
        }
    }),
    ("waits", |it| maybe_count(it.context_switches_voluntary)),
    ("preemptions", |it| {
        maybe_count(it.context_switches_involuntary)
    }),
    ("received MB", |it| megabytes(it.network_rx_bytes)),
    ("sent MB", |it| megabytes(it.network_tx_bytes)),
];

/// Returns the resource usage of every process role in every cell, including clients and generator.
/// The role that limited its cell is marked.
pub(crate) fn usage(run: &Run) -> ReportTable {
    let headings = USAGE.iter().map(|(heading, _)| *heading);
    let mut table = ReportTable::new(2, ["cell"].into_iter().chain(headings));
    for cell in view::cells(run) {
        for (index, usage) in cell.roles.iter().enumerate() {
            let class = match (index, cell.saturated_role.as_ref() == Some(&usage.role)) {
                (0, true) => "marked",
                (0, false) => "",
                (_, true) => "cont marked",
                (_, false) => "cont",
            };
            let fields = USAGE.iter().map(|(_, show)| show(usage));
            table.row(class, [cell.id()].into_iter().chain(fields));
        }
    }
    table
}

pub(crate) const USAGE_IN_SHORT: [usize; 7] = [0, 1, 2, 3, 5, 6, 7];
