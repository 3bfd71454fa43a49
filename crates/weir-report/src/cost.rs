//! What serving a number of clients takes, and which way of doing it held at the least cost.

use weir_stats::run::{Cell, Run};

use crate::format;
use crate::view::{self, FLOOR, Level, RowStatus, SubjectRow};

/// One subject at one level.
#[derive(Debug, Clone)]
pub(crate) struct CostOption {
    pub(crate) name: String,
    pub(crate) is_floor: bool,
    pub(crate) clients: u64,
    /// Why it is no choice; `None` if it held.
    pub(crate) trouble: Option<String>,
    pub(crate) p99_us: Option<f64>,
    /// Of all servers: broker and what stands between it and the clients.
    pub(crate) cores: Option<f64>,
    pub(crate) memory_bytes: Option<f64>,
    pub(crate) mbit_per_s: Option<f64>,
}

/// Everything that was measured at one level.
pub(crate) struct LevelCosts {
    pub(crate) clients: u64,
    pub(crate) offers: Vec<CostOption>,
}

impl LevelCosts {
    /// The offer that held with the fewest cores; the floor is a yardstick and no product.
    pub(crate) fn best(&self) -> Option<&CostOption> {
        self.held().find(|offer| offer.cores.is_some())
    }

    /// What else held, by cores.
    pub(crate) fn held(&self) -> impl Iterator<Item = &CostOption> {
        let mut held: Vec<&CostOption> = self
            .offers
            .iter()
            .filter(|offer| !offer.is_floor && offer.trouble.is_none())
            .collect();
        let cores = |offer: &CostOption| offer.cores.unwrap_or(f64::INFINITY);
        held.sort_by(|a, b| cores(a).total_cmp(&cores(b)));
        held.into_iter()
    }
}

/// Level by level; empty if the run compares nothing that one could choose, or has other coordinates than clients.
pub(crate) fn choices(run: &Run) -> Vec<LevelCosts> {
    let architectures = run.architectures();
    let products = architectures.iter().filter(|name| **name != FLOOR).count();
    if view::is_grid(run) || products < 2 {
        return Vec::new();
    }
    view::levels(run)
        .iter()
        .map(|level| LevelCosts {
            clients: level.clients,
            offers: offers(level),
        })
        .collect()
}

fn offers(level: &Level<'_>) -> Vec<CostOption> {
    level.rows.iter().map(|row| offer(level, row)).collect()
}

fn offer(level: &Level<'_>, row: &SubjectRow<'_>) -> CostOption {
    let trouble = match &row.state {
        RowStatus::Skipped(reason) => Some(format!("not run: {reason}")),
        RowStatus::Invalid(_) => Some("no figure that counts".to_owned()),
        RowStatus::Valid => row.limit().or_else(|| lossy(row)),
    };
    let repetitions = row.repetitions();
    CostOption {
        name: row.name.clone(),
        is_floor: row.is_floor(),
        clients: level.clients,
        trouble,
        p99_us: row.figures.p99_us,
        cores: repetitions.mean(|cell| of_servers(cell, |usage| usage.cpu_cores_mean)),
        memory_bytes: repetitions
            .mean(|cell| of_servers(cell, |usage| Some(usage.rss_max_bytes? as f64))),
        mbit_per_s: row.figures.mbit_per_s,
    }
}

fn lossy(row: &SubjectRow<'_>) -> Option<String> {
    let lost = row.figures.lost.filter(|lost| *lost > 0)?;
    Some(format!("{} deliveries lost", format::count(lost)))
}

/// Sum over the servers; `None` if one of them is not known.
fn of_servers(
    cell: &Cell,
    pick: impl Fn(&weir_stats::run::RoleUsage) -> Option<f64>,
) -> Option<f64> {
    let servers = ["broker", "gateway", "proxy", "floor"];
    let mut usages = cell
        .roles
        .iter()
        .filter(|usage| servers.contains(&usage.role.as_str()))
        .peekable();
    usages.peek()?;
    usages.map(pick).sum()
}

/// `0.31 cores per 1,000 clients`.
pub(crate) fn per_thousand(value: Option<f64>, clients: u64) -> Option<f64> {
    (clients > 0).then(|| value.map(|value| value / clients as f64 * 1e3))?
}

/// What [`row`] lists.
pub(crate) const HEADINGS: [&str; 8] = [
    "Clients",
    "choose",
    "because",
    "p99",
    "cores",
    "cores/1,000",
    "memory MB",
    "Mbit/s",
];

/// How a choice comes about.
pub(crate) const CAPTION: &str = "Chosen is what held the level and lost nothing with the fewest cores of all servers \
     together: the broker, and what stands between it and the clients. The floor is a yardstick and no choice. Memory is \
     the servers’ resident memory, Mbit/s what all clients received. Figures of this machine and this load; the ratio \
     between the lines carries further than the figures.";

/// One line of the table of choices.
pub(crate) fn row(choice: &LevelCosts) -> [String; 8] {
    let clients = format::count(choice.clients);
    let Some(best) = choice.best() else {
        let mut fields = std::array::from_fn(|_| none());
        (fields[0], fields[2]) = (clients, "nothing held".to_owned());
        return fields;
    };
    [
        clients,
        best.name.clone(),
        because(choice, best),
        best.p99_us.map_or_else(none, format::duration_us),
        format::number(best.cores),
        format::number(per_thousand(best.cores, best.clients)),
        format::number(best.memory_bytes.map(|bytes| bytes / 1e6)),
        format::number(best.mbit_per_s),
    ]
}

fn none() -> String {
    format::NONE.to_owned()
}

/// The comparison with the next best, else that nothing else held.
pub(crate) fn because(choice: &LevelCosts, best: &CostOption) -> String {
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
