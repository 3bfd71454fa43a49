//! Library comparison in `report.md`.

use std::fmt::Write as _;

use super::{Group, LibraryReport, PUBLISHED_NOTE, PUBLISHED_SOURCE, TitledTable};
use crate::escape::markdown as esc;

/// Writes everything between the verdict and the configuration.
pub(crate) fn sections(out: &mut String, compared: &LibraryReport<'_>) {
    overview(out, compared);
    for group in &compared.groups {
        section(out, compared, group);
    }
    let resources = super::resources(compared);
    if !resources.is_empty() {
        let _ = write!(out, "\n### Memory and threads\n\n{}", resources.markdown());
    }
    let settings = super::settings(compared);
    let settings = match settings.is_empty() {
        true => "None.\n".to_owned(),
        false => settings.markdown(),
    };
    let _ = write!(out, "\n### Unequal settings\n\n{settings}");
    data_quality(out, compared);
}

fn overview(out: &mut String, compared: &LibraryReport<'_>) {
    let libraries = compared.libraries;
    let profile = esc(super::profile(&libraries.profile));
    let _ = writeln!(out, "\n## Client libraries\n\nProfile {profile}\n");
    if let Some(text) = super::aa_test(compared) {
        let _ = writeln!(out, "{}\n", esc(&text));
    }
    let first = esc(compared.first_name());
    let _ = writeln!(
        out,
        "{}\nRatios are {first} divided by the library next to it, in %. Below 100 it needs less, \
         printed in **bold**. The median is over pairs of repetitions, with a 95 % interval from \
         {} pairs; if it contains 100, no difference is shown.{}",
        super::drivers(compared).markdown(),
        weir_stats::libraries::PAIRS_MIN,
        super::without_jni(compared)
    );
    if !compared.others.is_empty() {
        let table = super::at_a_glance(compared).markdown();
        let _ = write!(out, "\nComparison with {first}:\n\n{table}");
    }
    for text in super::explained(compared) {
        let _ = writeln!(out, "\n{}", esc(&text));
    }
}

fn section(out: &mut String, compared: &LibraryReport<'_>, group: &Group<'_>) {
    let _ = writeln!(out, "\n### {}", esc(&group.title()));
    let quantity = group.headline();
    let published = super::published_blocks(compared, group);
    let has_published = !published.is_empty();
    grid(out, &group.averages(quantity, published));
    if has_published {
        let _ = writeln!(out, "\n{}. {}", esc(PUBLISHED_SOURCE), esc(PUBLISHED_NOTE));
    }
    grid(out, &group.medians(quantity));
    if let Some(cpu_time) = group.cpu_time() {
        grid(out, &cpu_time);
    }
    if let Some(jni_calls) = group.jni_calls() {
        grid(out, &jni_calls);
    }
    grid(out, &group.times(quantity));
    if let Some(wire_bytes) = group.wire_bytes() {
        grid(out, &wire_bytes);
    }
    for (name, why) in group.skipped() {
        let _ = writeln!(out, "\n- {} was not measured: {}", esc(name), esc(why));
    }
}

fn grid(out: &mut String, (title, table): &TitledTable) {
    if !table.is_empty() {
        let _ = write!(out, "\n{}:\n\n{}", esc(title), table.markdown());
    }
}

fn data_quality(out: &mut String, compared: &LibraryReport<'_>) {
    out.push_str("\n### Invalid and noisy repetitions\n\n");
    let (invalid, more) = super::questionable_repetitions(compared, REPETITIONS_LISTED_MAX);
    let noisy = super::without_noisy(compared);
    if invalid.is_empty() && noisy.is_empty() {
        out.push_str("None.\n");
    }
    if !invalid.is_empty() {
        out.push_str(&invalid.markdown());
    }
    if more > 0 {
        let _ = writeln!(out, "\n{more} more are in libraries.jsonl.");
    }
    if !noisy.is_empty() {
        let _ = write!(
            out,
            "\nNoisy: other processes used more than 10 % of the machine. Main ratio with and \
             without these repetitions:\n\n{}",
            noisy.markdown()
        );
    }
}

const REPETITIONS_LISTED_MAX: usize = 40;
