//! Tables with value sizes as columns and burst sizes as rows.

use maud::{Markup, html};

use crate::format::NONE;
use crate::libraries::{Grid, Group, TableCell};

/// Returns one table with its title, unless it is empty.
pub(super) fn grid(group: &Group<'_>, grid: &Grid) -> Markup {
    let columns = grid.columns.len();
    html! { @if !grid.blocks.is_empty() { div {
        h4 { (grid.title) } "\n"
        div.scroll { table class="results ratios" { "\n"
            thead { tr {
                th scope="col" { (group.corner()) }
                @for column in &grid.columns { th scope="col" class="n" { (column) } }
            } } "\n"
            @for block in &grid.blocks { tbody { "\n"
                tr.level { th scope="rowgroup" { (block.title) } td colspan=(columns) {} } "\n"
                @for (label, entries) in &block.rows { tr {
                    th scope="row" { (label) }
                    @for entry in entries { (cell(entry.as_ref())) }
                } "\n" }
            } "\n" }
        } }
    } "\n" } }
}

fn cell(entry: Option<&TableCell>) -> Markup {
    let Some(entry) = entry else {
        return html! { td class="n open" { (NONE) } };
    };
    let class = match (entry.first_better, entry.is_open) {
        (true, _) => "n strong",
        (false, true) => "n open",
        (false, false) => "n",
    };
    html! { td class=(class) { (entry.text) @for more in &entry.more { small { (more) } } } }
}
