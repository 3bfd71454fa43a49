//! The main comparison: a block per level.

use maud::html;
use weir_stats::run::Run;

use super::element::{Section, remarks};
use crate::columns::{self, GROUPS};
use crate::results;
use crate::view::{self, Level, SubjectRow};

pub(crate) fn section(run: &Run, levels: &[Level<'_>]) -> Section {
    let tables = results::special_tables(run);
    if !tables.is_empty() {
        let content = html! { @for (title, table) in &tables { h3 { (title) } (table) } };
        return Section::new("results", "Results", content);
    }
    let name = |column: &columns::Column| column.name.to_owned();
    let table = results::table(run, levels, &columns::below(u8::MAX), name, |it| it.label());
    let unit = view::median_unit(levels).name();
    let groups = GROUPS.iter().map(|(name, size)| match *name {
        "Latency" => (format!("Latency, {unit}"), *size),
        name => (name.to_owned(), *size),
    });
    let groups = [(String::new(), 1)].into_iter().chain(groups);
    let list = |class: &str, text: fn(&SubjectRow<'_>) -> Option<String>| {
        let all = results::remarks(levels, text).into_iter();
        remarks(
            class,
            all.map(|(name, text)| html! { b { (name) } ": " (text) }),
        )
    };
    let content = html! {
        (table.groups(groups.collect()))
        (list("", |row| row.unwanted()))
        (list("warning", |row| row.not_sustained()))
        p.caption {
            "Latency starts at the due time of a record, so a late sender hides nothing. "
            b { "CPU" } ": CPU time of the delivering process (gateway or floor; the broker if \
            clients read from it directly) per wanted delivery. " b { "With broker" }
            ": including the broker. " b { "× floor" } ": relative to the baseline server in the \
            same run, with a 95 % interval if there are repetitions. Values are geometric means \
            over repetitions; losses are summed. – means too few samples or not measured."
        }
    };
    Section::new("results", "Results", content)
}
