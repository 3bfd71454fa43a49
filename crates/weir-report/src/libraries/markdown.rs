//! Library comparison in `report.md`.

use std::fmt::Write as _;

use super::{
    Grid, Group, LibraryReport, LibraryRows, PUBLISHED_NOTE, PUBLISHED_SOURCE, RESOURCE_HEADINGS,
    TableCell,
};
use crate::escape::markdown as esc;
use crate::format;

/// Writes everything between the verdict and the configuration.
pub(crate) fn sections(out: &mut String, compared: &LibraryReport<'_>) {
    overview(out, compared);
    for group in &compared.groups {
        section(out, compared, group);
    }
    resources(out, compared);
    settings(out, compared);
    data_quality(out, compared);
}

fn overview(out: &mut String, compared: &LibraryReport<'_>) {
    let libraries = compared.libraries;
    let _ = writeln!(
        out,
        "\n## Client libraries\n\nProfile {}\n",
        esc(super::profile(&libraries.profile))
    );
    if let Some(text) = super::aa_test(compared) {
        let _ = writeln!(out, "{}\n", esc(&text));
    }
    out.push_str("| driver | library | version | binding | runtime | warm-up rounds | |\n");
    out.push_str("|---|---|---|---|---|--:|---|\n");
    for driver in &libraries.drivers {
        let state = match (&driver.failed, driver.is_warm_up_complete()) {
            (Some(why), _) => format!("abandoned: {}", esc(why)),
            (None, false) => "warm-up reached no steady state".to_owned(),
            (None, true) => String::new(),
        };
        let texts = [
            &driver.name,
            &driver.library,
            &driver.library_version,
            &driver.binding,
            &driver.runtime,
        ];
        let _ = writeln!(
            out,
            "| {} | {} | {state} |",
            texts.map(|text| esc(text)).join(" | "),
            driver.warm_up_rounds
        );
    }
    let _ = writeln!(
        out,
        "\nRatios are {} divided by the library next to it, in %. Below 100 it needs less, printed \
         in **bold**. The median is over pairs of repetitions, with a 95 % interval from {} pairs; \
         if it contains 100, no difference is shown. No .NET was involved: calls through JNI could \
         not be counted.",
        esc(compared.first_name()),
        weir_stats::libraries::PAIRS_MIN
    );
    let (headings, rows) = super::at_a_glance(compared);
    if !compared.others.is_empty() {
        let headings: Vec<String> = headings.iter().map(|text| esc(text)).collect();
        let _ = writeln!(
            out,
            "\nComparison with {}:\n\n| {} |\n|{}",
            esc(compared.first_name()),
            headings.join(" | "),
            "---|".repeat(headings.len())
        );
        table(out, rows);
    }
    for text in super::explained(compared) {
        let _ = writeln!(out, "\n{}", esc(&text));
    }
}

fn section(out: &mut String, compared: &LibraryReport<'_>, group: &Group<'_>) {
    let _ = writeln!(out, "\n### {}", esc(&group.title()));
    let quantity = group.headline();
    let is_legacy = compared.libraries.profile == "legacy";
    grid(out, group, &group.averages(quantity));
    if let Some(published) = super::published(group).filter(|_| is_legacy) {
        grid(out, group, &published);
        let _ = writeln!(out, "\n{}. {}", esc(PUBLISHED_SOURCE), esc(PUBLISHED_NOTE));
    }
    grid(out, group, &group.medians(quantity));
    if let Some(cpu_time) = group.cpu_time() {
        grid(out, group, &cpu_time);
    }
    grid(out, group, &group.times(quantity));
    for view in &group.cells {
        if let Some(why) = &view.cell.skipped {
            let _ = writeln!(
                out,
                "\n- {} was not measured: {}",
                esc(&view.cell.name),
                esc(why)
            );
        }
    }
}

fn grid(out: &mut String, group: &Group<'_>, grid: &Grid) {
    if grid.blocks.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}:\n", esc(&grid.title));
    let _ = writeln!(
        out,
        "| | {} | {} |\n|---|---|{}",
        esc(group.corner()),
        grid.columns.join(" | "),
        "--:|".repeat(grid.columns.len())
    );
    for LibraryRows { title, rows } in &grid.blocks {
        for (label, entries) in rows {
            let fields: Vec<String> = entries.iter().map(|it| field(it.as_ref())).collect();
            let _ = writeln!(out, "| {} | {label} | {} |", esc(title), fields.join(" | "));
        }
    }
}

fn field(entry: Option<&TableCell>) -> String {
    let Some(entry) = entry else {
        return format::NONE.to_owned();
    };
    let text = match entry.first_better {
        true => format!("**{}**", esc(&entry.text)),
        false => esc(&entry.text),
    };
    let more: Vec<String> = entry.more.iter().map(|text| esc(text)).collect();
    format!("{text} {}", more.join(", ")).trim_end().to_owned()
}

fn resources(out: &mut String, compared: &LibraryReport<'_>) {
    let rows = super::resources(compared);
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n### Memory and threads\n\n| {} |\n|---|{}",
        RESOURCE_HEADINGS.join(" | "),
        "--:|".repeat(RESOURCE_HEADINGS.len() - 1)
    );
    table(out, rows);
}

fn settings(out: &mut String, compared: &LibraryReport<'_>) {
    let unequal = weir_stats::libraries::unequal_settings(compared.libraries);
    out.push_str("\n### Unequal settings\n\n");
    if unequal.is_empty() {
        out.push_str("None.\n");
        return;
    }
    let headings = super::setting_headings(compared);
    let headings: Vec<String> = headings.iter().map(|text| esc(text)).collect();
    let _ = writeln!(
        out,
        "| {} |\n|{}",
        headings.join(" | "),
        "---|".repeat(headings.len())
    );
    table(
        out,
        unequal.iter().map(|it| super::setting_fields(compared, it)),
    );
}

fn data_quality(out: &mut String, compared: &LibraryReport<'_>) {
    out.push_str("\n### Invalid and noisy repetitions\n\n");
    let (rows, more) = super::questionable_repetitions(compared, REPETITIONS_LISTED_MAX);
    let noisy = super::without_noisy(compared);
    if rows.is_empty() && noisy.is_empty() {
        out.push_str("None.\n");
        return;
    }
    if !rows.is_empty() {
        out.push_str("| cell | driver | repetition | |\n|---|---|--:|---|\n");
        table(out, rows.into_iter().map(Vec::from));
    }
    if more > 0 {
        let _ = writeln!(out, "\n{more} more are in libraries.jsonl.");
    }
    if !noisy.is_empty() {
        out.push_str(
            "\nNoisy: other processes used more than 10 % of the machine. Main ratio with and \
             without these repetitions:\n\n| cell | other | noisy pairs | with | without \
             |\n|---|---|--:|--:|--:|\n",
        );
        table(out, noisy);
    }
}

const REPETITIONS_LISTED_MAX: usize = 40;

fn table(out: &mut String, rows: impl IntoIterator<Item = Vec<String>>) {
    for fields in rows {
        let fields: Vec<String> = fields.iter().map(|text| esc(text)).collect();
        let _ = writeln!(out, "| {} |", fields.join(" | "));
    }
}
