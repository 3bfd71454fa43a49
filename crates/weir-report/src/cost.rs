//! Server resources by number of clients, and the architecture that needs the fewest cores.

use weir_stats::run::{Cell, Run};

use crate::format;
use crate::view::{self, FLOOR, Level, RowStatus, SubjectRow};

/// One subject at one level.
#[derive(Debug, Clone)]
pub(crate) struct CostOption {
    pub(crate) name: String,
    pub(crate) is_floor: bool,
    pub(crate) clients: u64,
    /// Reason why the subject cannot be chosen; `None` if it sustained the level.
    pub(crate) reason: Option<String>,
    pub(crate) p99_us: Option<f64>,
    /// Sum over all servers: the broker and the processes between it and the clients.
    pub(crate) cores: Option<f64>,
    pub(crate) memory_bytes: Option<f64>,
    pub(crate) mbit_per_s: Option<f64>,
}

/// All subjects at one level.
pub(crate) struct LevelCosts {
    pub(crate) clients: u64,
    pub(crate) options: Vec<CostOption>,
}

impl LevelCosts {
    /// Returns the subject that sustained the level with the fewest cores, except the floor, which
    /// is a baseline.
    pub(crate) fn best(&self) -> Option<&CostOption> {
        self.sustained().find(|option| option.cores.is_some())
    }

    /// Returns the subjects that sustained the level, fewest cores first.
    pub(crate) fn sustained(&self) -> impl Iterator<Item = &CostOption> {
        let mut sustained: Vec<&CostOption> = self
            .options
            .iter()
            .filter(|option| !option.is_floor && option.reason.is_none())
            .collect();
        let cores = |option: &CostOption| option.cores.unwrap_or(f64::INFINITY);
        sustained.sort_by(|a, b| cores(a).total_cmp(&cores(b)));
        sustained.into_iter()
    }
}

/// Returns the costs of each level; empty if the run has fewer than two architectures besides the
/// floor or other coordinates than clients.
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
            options: cost_options(level),
        })
        .collect()
}

fn cost_options(level: &Level<'_>) -> Vec<CostOption> {
    level
        .rows
        .iter()
        .map(|row| cost_option(level, row))
        .collect()
}

fn cost_option(level: &Level<'_>, row: &SubjectRow<'_>) -> CostOption {
    let reason = match &row.state {
        RowStatus::Skipped(reason) => Some(format!("not run: {reason}")),
        RowStatus::Invalid(_) => Some("no valid result".to_owned()),
        RowStatus::Valid => row.limit().or_else(|| lossy(row)),
    };
    let repetitions = row.repetitions();
    CostOption {
        name: row.name.clone(),
        is_floor: row.is_floor(),
        clients: level.clients,
        reason,
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

/// Returns the sum over the servers; `None` if a value is missing.
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

/// Returns a value per 1,000 clients, such as `0.31 cores per 1,000 clients`.
pub(crate) fn per_thousand(value: Option<f64>, clients: u64) -> Option<f64> {
    (clients > 0).then(|| value.map(|value| value / clients as f64 * 1e3))?
}

/// Column headings of [`row`].
pub(crate) const HEADINGS: [&str; 8] = [
    "Clients",
    "choice",
    "reason",
    "p99",
    "cores",
    "cores/1,000",
    "memory MB",
    "Mbit/s",
];

/// Caption of the table: how the choice is made.
pub(crate) const CAPTION: &str = "The choice is the architecture that sustained the level without \
                                  loss and with the fewest cores of all servers: the broker and \
                                  the processes between it and the clients. The floor is a \
                                  baseline and cannot be chosen. Memory: resident memory of the \
                                  servers. Mbit/s: received by all clients. Absolute values are \
                                  for this machine and load; ratios between architectures transfer \
                                  better.";

/// Returns one row of the table.
pub(crate) fn row(choice: &LevelCosts) -> [String; 8] {
    let clients = format::count(choice.clients);
    let Some(best) = choice.best() else {
        let mut fields = std::array::from_fn(|_| none());
        (fields[0], fields[2]) = (clients, "no architecture sustained it".to_owned());
        return fields;
    };
    [
        clients,
        best.name.clone(),
        choice_reason(choice, best),
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

/// Returns the comparison with the next best subject.
pub(crate) fn choice_reason(choice: &LevelCosts, best: &CostOption) -> String {
    let next = choice.sustained().find(|option| option.name != best.name);
    let ratio = next.and_then(|next| Some((next, next.cores? / best.cores?)));
    match (next, ratio) {
        (_, Some((next, ratio))) => {
            format!(
                "{} needs {} the cores",
                next.name,
                format::factor(Some(ratio))
            )
        }
        (Some(next), None) => format!("{} sustained it too; its cores are unknown", next.name),
        (None, _) => "only this one sustained it".to_owned(),
    }
}
