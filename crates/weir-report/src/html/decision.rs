//! Which architecture at how many clients, and what it costs: a table for every level, and a reckoner on screens.

use std::fmt::Write as _;

use weir_stats::run::Run;

use super::element::Table;
use crate::cost::{self, Choice, Offer};
use crate::format;

/// The section; nothing if the run leaves no choice.
pub(crate) fn section(out: &mut String, run: &Run) {
    let choices = cost::choices(run);
    if choices.is_empty() {
        return;
    }
    out.push_str(
        "<section id=\"decision\">\n<h2>Which architecture, and what it costs</h2>\n<div class=\"live\"></div>\n",
    );
    let headings = [
        "Clients",
        "choose",
        "because",
        "p99",
        "cores",
        "cores/1,000",
        "memory MB",
        "Mbit/s",
    ];
    let mut table = Table::new(3, &headings);
    for choice in &choices {
        table.row("", &row(choice));
    }
    table.finish(out);
    let _ = writeln!(
        out,
        "<p class=\"caption\">Chosen is what held the level and lost nothing with the fewest cores of all servers \
         together: the broker, and what stands between it and the clients. The floor is a yardstick and no \
         choice. Memory is the servers’ resident memory, Mbit/s what all clients received. Figures of this \
         machine and this load; the ratio between the lines carries further than the figures.</p>\n</section>"
    );
}

fn row(choice: &Choice) -> Vec<String> {
    let clients = format::count(choice.clients);
    let Some(best) = choice.best() else {
        let mut fields = vec![clients, "–".to_owned(), "nothing held".to_owned()];
        fields.resize(8, format::NONE.to_owned());
        return fields;
    };
    vec![
        clients,
        best.name.clone(),
        because(choice, best),
        best.p99_us.map_or_else(none, format::duration_us),
        format::number(best.cores),
        format::number(cost::per_thousand(best.cores, best.clients)),
        format::number(best.memory_bytes.map(|bytes| bytes / 1e6)),
        format::number(best.mbit_per_s),
    ]
}

fn none() -> String {
    format::NONE.to_owned()
}

/// The comparison with the next best, else that nothing else held.
pub(crate) fn because(choice: &Choice, best: &Offer) -> String {
    let next = choice.held().find(|offer| offer.name != best.name);
    let ratio = next.and_then(|next| Some((next, next.cores? / best.cores?)));
    match (next, ratio) {
        (_, Some((next, ratio))) => {
            format!(
                "{} needs {} the cores",
                next.name,
                format::factor(Some(ratio))
            )
        }
        (Some(next), None) => format!("{} held too, its cores are not known", next.name),
        (None, _) => "nothing else held".to_owned(),
    }
}
