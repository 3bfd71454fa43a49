//! Server resources by number of clients, and the architecture that needs the fewest cores.

use serde::Serialize;
use weir_stats::run::Run;

use crate::chart::slot;
use crate::format;
use crate::overhead;
use crate::table::{Field, ReportTable};
use crate::view::{self, FLOOR, Level, RowStatus, SubjectRow};

/// Prices in US dollars: round numbers close to on-demand list prices of large cloud providers.
#[derive(Serialize)]
pub(crate) struct Prices {
    /// Per core and month.
    pub(crate) core: f64,
    /// Per GB of memory and month.
    pub(crate) memory: f64,
    /// Per TB sent. Traffic inside a network is often free; traffic to the internet can cost more
    /// than the servers.
    pub(crate) traffic: f64,
}

/// The default prices; the calculator of the page changes them.
pub(crate) const PRICES: Prices = Prices {
    core: 25.0,
    memory: 3.0,
    traffic: 0.0,
};

/// 30 days.
const MONTH_S: f64 = 30.0 * 86_400.0;

impl Prices {
    /// Returns the cost of servers and traffic per month; `None` if the cores are unknown.
    fn per_month(&self, option: &CostOption) -> Option<f64> {
        let memory = option.memory_bytes.unwrap_or(0.0) / 1e9 * self.memory;
        let traffic = option.terabytes_per_month().unwrap_or(0.0) * self.traffic;
        Some(option.cores? * self.core + memory + traffic)
    }
}

/// One subject at one level, with the server resources that it needs.
#[derive(Serialize)]
pub(crate) struct CostOption {
    #[serde(skip)]
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) is_floor: bool,
    pub(crate) clients: u64,
    /// Reason why the subject cannot be chosen; `None` if it sustained the level.
    pub(crate) reason: Option<String>,
    pub(crate) p99_us: Option<f64>,
    /// Sum over all servers: the broker and the processes between it and the clients.
    pub(crate) cores: Option<f64>,
    pub(crate) memory_bytes: Option<f64>,
    pub(crate) mbit_per_s: Option<f64>,
    #[serde(skip)]
    wanted_per_s: Option<f64>,
}

impl CostOption {
    fn terabytes_per_month(&self) -> Option<f64> {
        Some(self.mbit_per_s? * 1e6 / 8.0 * MONTH_S / 1e12)
    }

    fn cost_per_million(&self) -> Option<f64> {
        let per_month = self.wanted_per_s.filter(|per_s| *per_s > 0.0)? * MONTH_S;
        Some(PRICES.per_month(self)? / per_month * 1e6)
    }
}

/// Returns the subjects that sustained the level, fewest cores first, except the floor, which is a
/// baseline.
fn sustained(options: &[CostOption]) -> Vec<&CostOption> {
    let options = options.iter();
    let sustained = options.filter(|option| !option.is_floor && option.reason.is_none());
    let mut sustained: Vec<&CostOption> = sustained.collect();
    let cores = |option: &CostOption| option.cores.unwrap_or(f64::INFINITY);
    sustained.sort_by(|a, b| cores(a).total_cmp(&cores(b)));
    sustained
}

/// Returns all subjects of each level; empty if the run has fewer than two architectures besides
/// the floor or other coordinates than clients.
pub(crate) fn choices(run: &Run) -> Vec<Vec<CostOption>> {
    let architectures = run.architectures();
    let products = architectures.iter().filter(|name| **name != FLOOR).count();
    if view::is_grid(run) || products < 2 || overhead::is_measured(run) {
        return Vec::new();
    }
    let options = |level: &Level<'_>| level.rows.iter().map(cost_option).collect();
    view::levels(run).iter().map(options).collect()
}

fn cost_option(row: &SubjectRow<'_>) -> CostOption {
    let reason = match &row.state {
        RowStatus::Skipped(reason) => Some(format!("not run: {reason}")),
        RowStatus::Invalid(_) => Some("no valid result".to_owned()),
        RowStatus::Valid => row.limit().or_else(|| {
            let lost = row.figures.lost.filter(|lost| *lost > 0)?;
            Some(format!("{} deliveries lost", format::count(lost)))
        }),
    };
    let repetitions = row.repetitions();
    CostOption {
        name: row.name.clone(),
        is_floor: row.is_floor(),
        clients: row.clients(),
        reason,
        p99_us: row.figures.p99_us,
        cores: view::server_cores(&repetitions),
        memory_bytes: repetitions
            .mean(|cell| cell.of_servers(|usage| Some(usage.rss_max_bytes? as f64))),
        mbit_per_s: row.figures.mbit_per_s,
        wanted_per_s: repetitions.mean(|cell| {
            let delivery = cell.delivery.as_ref()?;
            (cell.hold_s > 0.0).then(|| delivery.wanted() as f64 / cell.hold_s)
        }),
    }
}

/// Caption of the table: how the choice is made.
pub(crate) const CAPTION: &str = "The choice is the architecture that sustained the level without \
                                  loss and with the fewest cores of all servers: the broker and \
                                  the processes between it and the clients. The floor is a \
                                  baseline and cannot be chosen. Memory: resident memory of the \
                                  servers. Mbit/s: received by all clients. Prices: as below. \
                                  Absolute values are for this machine and load; ratios between \
                                  architectures transfer better.";

/// Returns the caption of the servers, with the prices.
pub(crate) fn servers_caption() -> String {
    format!(
        "Cores and resident memory of all servers: the broker and the processes between it and the \
         clients. Cost in US dollars at {} per core and {} per GB of memory a month; traffic is \
         not included. A month has 30 days. Lower is better everywhere.",
        PRICES.core, PRICES.memory
    )
}

/// Returns the servers of each subject at each level that it sustained, and their cost.
pub(crate) fn servers(run: &Run, levels: &[Level<'_>]) -> ReportTable {
    let headings = "clients|architecture|cores|cores per 1,000 clients|memory, MB|TB sent per month\
                    |cost per month, $|per million wanted deliveries, $";
    let mut table = ReportTable::headed(2, headings).grouped();
    for level in levels {
        for row in level.valid() {
            let option = cost_option(row);
            if option.cores.is_none() || option.wanted_per_s.is_none() {
                continue;
            }
            let per_thousand = option
                .cores
                .map(|cores| cores / option.clients.max(1) as f64 * 1e3);
            let name = Field {
                swatch: Some(slot(run, &row.name)),
                ..Field::from(&row.name)
            };
            let figures = [
                option.cores,
                per_thousand,
                option.memory_bytes.map(|bytes| bytes / 1e6),
                option.terabytes_per_month(),
                PRICES.per_month(&option),
                option.cost_per_million(),
            ];
            let figures = figures.map(|value| format::number(value).into());
            table.row("", [level.label().into(), name].into_iter().chain(figures));
        }
    }
    table
}

/// Returns the choice at each level; empty if there are no architectures to choose from.
pub(crate) fn table(run: &Run) -> ReportTable {
    let headings = "clients|choice|reason|p99|cores|memory, MB|Mbit/s|cost per month, $";
    let mut table = ReportTable::headed(3, headings);
    for options in choices(run) {
        let sustained = sustained(&options);
        let clients = options.first().map_or(0, |option| option.clients);
        let Some(best) = sustained.iter().find(|option| option.cores.is_some()) else {
            let none = format::NONE;
            let reason = "no architecture sustained it";
            let clients = format::count(clients);
            table.row("", [&clients, none, reason, none, none, none, none, none]);
            continue;
        };
        let fields = [
            format::count(clients),
            best.name.clone(),
            reason(&sustained, best),
            format::maybe_duration_us(best.p99_us),
            format::number(best.cores),
            format::number(best.memory_bytes.map(|bytes| bytes / 1e6)),
            format::number(best.mbit_per_s),
            format::number(PRICES.per_month(best)),
        ];
        table.row("", fields);
    }
    table
}

/// Returns the comparison with the next best subject.
fn reason(sustained: &[&CostOption], best: &CostOption) -> String {
    let Some(next) = sustained.iter().find(|option| option.name != best.name) else {
        return "only this one sustained it".to_owned();
    };
    let name = &next.name;
    match next.cores.zip(best.cores).map(|(next, best)| next / best) {
        Some(ratio) => format!("{name} needs {} the cores", format::factor(Some(ratio))),
        None => format!("{name} sustained it too; its cores are unknown"),
    }
}
