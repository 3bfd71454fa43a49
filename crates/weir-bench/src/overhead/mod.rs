//! What proxies cost: the same load through each of several ways to one broker, in turns.

mod consume;
mod kafka;
mod measure;
mod plan;
mod produce;
mod result;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_kafka::Admin;
use weir_lab::{KafkaTools, Lab, LabOptions};
use weir_stats::run::{Cell, CellStatus};
use weir_stats::utc;

use super::{BenchError, BenchOptions, Finished, Observer};
use produce::ProduceRun;
use servers::{Server, Starter};
use weir_load::clock::Clock;

pub use plan::{
    BUILT_IN_FILE, BUILT_IN_TEXT, FigureLimit, OverheadOverrides, OverheadPlan, ProxyPath,
};

/// What all runs through all subjects share.
struct OverheadContext<'a> {
    plan: &'a OverheadPlan,
    /// This program: producer, relay and proxy are commands of it.
    exe: &'a Path,
    /// The run folder.
    dir: PathBuf,
    /// Empty if the broker is not ours.
    broker_pids: &'a [u32],
    tools: Option<KafkaTools>,
    stop: &'a AtomicBool,
    clock: Clock,
    started_unix_ns: u64,
}

/// Why a run through a subject has no figures.
enum RunFailure {
    /// The user has had enough.
    Interrupted,
    /// Something failed; the others go on.
    Failed(String),
}

impl From<BenchError> for RunFailure {
    fn from(error: BenchError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Whose client, and which way records go; also the architecture in results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientSide {
    Produce,
    Consume,
    KafkaProduce,
    KafkaConsume,
}

impl ClientSide {
    fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
            Self::KafkaProduce => "kafka-produce",
            Self::KafkaConsume => "kafka-consume",
        }
    }
}

/// Runs the plan. When `stop` becomes true, the client that runs is ended, and what was measured is written.
/// `broker_port` is where a broker that is started for the run listens: foreign proxies have to know.
///
/// # Errors
/// [`BenchError`] if there is no broker, no place to write, or one of our own proxies does not start.
pub fn run(
    plan: &OverheadPlan,
    options: &BenchOptions,
    broker_port: Option<u16>,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    let clock = Clock::start();
    let started_unix_ns = clock.now_unix_ns();
    let started_s = started_unix_ns / 1_000_000_000;
    let dir = super::run_dir(&options.out, started_s, &plan.name)?;
    let relay = match options.bootstrap {
        None => Some(servers::relay_ports()?),
        Some(_) => None,
    };
    let lab_options = LabOptions {
        port: broker_port,
        second_listeners: relay.into_iter().collect(),
        // What was deleted must not fill the disk while the next round runs.
        properties: vec![("log.segment.delete.delay.ms".to_owned(), "1000".to_owned())],
        ..LabOptions::default()
    };
    let lab = match options.bootstrap {
        Some(_) => None,
        None => Some(Lab::up(
            &lab_options,
            &mut |text| observer.note(text),
            stop,
        )?),
    };
    let tools = plan.kafka_tools.then(|| {
        KafkaTools::find(
            weir_lab::KAFKA_VERSION,
            &mut |text| observer.note(text),
            stop,
        )
    });
    let bootstrap = lab.as_ref().map(Lab::bootstrap);
    let bootstrap = bootstrap
        .or_else(|| options.bootstrap.clone())
        .unwrap_or_default();
    let pids: Vec<u32> = lab
        .iter()
        .flat_map(Lab::brokers)
        .map(|broker| broker.pid)
        .collect();
    let context = OverheadContext {
        plan,
        exe: &options.exe,
        dir,
        broker_pids: &pids,
        tools: tools.transpose()?,
        stop,
        clock,
        started_unix_ns,
    };
    let starter = Starter {
        plan,
        exe: &options.exe,
        dir: &context.dir,
        bootstrap: &bootstrap,
        relay,
        stop,
    };
    let (mut servers, notes) = start_all(&starter)?;
    let admin = Admin::connect(&bootstrap, ADMIN_TIMEOUT)?;
    let mut rounds = Rounds::new(&context, &admin);
    rounds.preheat(&servers, observer);
    rounds.run_all(&mut servers, observer);
    let cells = rounds.cells;
    servers.into_iter().for_each(Server::end);
    let kafka = lab.as_ref().map(|lab| lab.kafka_version().to_owned());
    let mut run = result::describe(&context, options, &bootstrap, kafka);
    run.started_utc = utc::rfc3339(started_s);
    run.finished_utc = utc::rfc3339(clock.now_unix_ns() / 1_000_000_000);
    run.cells = cells;
    run.notes = notes;
    result::conclude(&mut run, plan, stop.load(Ordering::Relaxed));
    if let Some(Err(error)) = lab.map(Lab::down) {
        let text = format!("the broker did not stop in order: {error}");
        run.warnings.push(text);
    }
    super::write_run(&context.dir, &run)?;
    Ok(Finished {
        dir: context.dir,
        run,
    })
}

/// All subjects, ready; and what is to be said about those that are not there.
fn start_all(starter: &Starter<'_>) -> Result<(Vec<Server>, Vec<String>), BenchError> {
    let (mut servers, mut notes) = (Vec::new(), Vec::new());
    for &subject in &starter.plan.subjects {
        match starter.start(subject)? {
            Some(server) => servers.push(server),
            None => notes.push(format!(
                "no {}: only a broker that is started for the run can advertise its address",
                subject.name()
            )),
        }
    }
    for (name, address) in &starter.plan.foreign {
        let server = starter.foreign(name, address);
        if server.pids.is_empty() {
            notes.push(format!(
                "{name} at {address}: its process is not known, so no cost"
            ));
        }
        servers.push(server);
    }
    Ok((servers, notes))
}

/// The rounds, and what they have measured.
struct Rounds<'a> {
    context: &'a OverheadContext<'a>,
    admin: &'a Admin,
    cells: Vec<Cell>,
    topics: u64,
}

impl<'a> Rounds<'a> {
    fn new(context: &'a OverheadContext<'a>, admin: &'a Admin) -> Self {
        Self {
            context,
            admin,
            cells: Vec::new(),
            topics: 0,
        }
    }

    /// Has a new broker compile its hot paths, and each subject as well, before anything is measured.
    fn preheat(&mut self, servers: &[Server], observer: &mut dyn Observer) {
        let records = self.context.plan.preheat_messages;
        if records == 0 || self.stopped() {
            return;
        }
        observer.note(&format!("warming up with {records} records"));
        for server in servers {
            let share = records / servers.len() as u64;
            let (side, rate) = (ClientSide::Produce, None);
            let mut cell = self.empty_cell(side, server, rate, 0);
            if let Ok(topic) = self.create_topic(&mut cell) {
                let job = ProduceRun {
                    server,
                    topic: &topic,
                    records: share.max(1000),
                    rate,
                };
                // What fails here fails again where it counts.
                let _ = produce::run(self.context, &job, &mut cell);
                self.delete_topic(&topic);
            }
        }
    }

    fn run_all(&mut self, servers: &mut [Server], observer: &mut dyn Observer) {
        let rounds = u64::from(self.context.plan.rounds);
        let sides = if self.context.tools.is_some() { 2 } else { 1 };
        let loads = self.context.plan.rates().count() + usize::from(self.context.plan.consume);
        let cells = rounds as usize * sides * loads * servers.len();
        for round in 1..=rounds {
            self.round(round, cells, servers, observer);
        }
    }

    /// Every load through every subject. Who begins changes from round to round, so that what one
    /// leaves behind is not always found by the same.
    fn round(
        &mut self,
        round: u64,
        cells: usize,
        servers: &mut [Server],
        observer: &mut dyn Observer,
    ) {
        let count = servers.len();
        let first = (round as usize - 1) % count;
        let order: Vec<usize> = (0..count).map(|at| (first + at) % count).collect();
        let mut kept = None;
        let producing = [ClientSide::Produce, ClientSide::KafkaProduce];
        let has_tools = self.context.tools.is_some();
        for side in producing
            .into_iter()
            .filter(|side| has_tools || *side == ClientSide::Produce)
        {
            for rate in self.context.plan.rates() {
                for &at in &order {
                    let cell = self.empty_cell(side, &servers[at], rate, round);
                    observer.cell(self.cells.len() + 1, cells, &cell.id());
                    let topic = self.produce(side, &mut servers[at], rate, cell, observer);
                    // One of those topics is read afterwards.
                    let is_whole = side == ClientSide::Produce && rate.is_none() && kept.is_none();
                    match topic {
                        Some(topic) if is_whole && self.is_valid() => kept = Some(topic),
                        Some(topic) => self.delete_topic(&topic),
                        None => {}
                    }
                }
            }
        }
        if self.context.plan.consume {
            let consuming = [ClientSide::Consume, ClientSide::KafkaConsume];
            for side in consuming
                .into_iter()
                .filter(|side| has_tools || *side == ClientSide::Consume)
            {
                for &at in &order {
                    let cell = self.empty_cell(side, &servers[at], None, round);
                    observer.cell(self.cells.len() + 1, cells, &cell.id());
                    self.consume(side, &mut servers[at], kept.as_deref(), cell, observer);
                }
            }
        }
        if let Some(topic) = kept {
            self.delete_topic(&topic);
        }
    }

    /// The topic that was written, which is to be deleted.
    fn produce(
        &mut self,
        side: ClientSide,
        server: &mut Server,
        rate: Option<u64>,
        mut cell: Cell,
        observer: &mut dyn Observer,
    ) -> Option<String> {
        if self.skips(server, &mut cell) {
            self.enter(server, cell, Ok(()), observer);
            return None;
        }
        let topic = match self.create_topic(&mut cell) {
            Ok(topic) => topic,
            Err(fault) => {
                self.enter(server, cell, Err(fault), observer);
                return None;
            }
        };
        let job = ProduceRun {
            server,
            topic: &topic,
            records: self.context.plan.records(rate),
            rate,
        };
        let outcome = match (&self.context.tools, side) {
            (Some(tools), ClientSide::KafkaProduce) => {
                kafka::produce(self.context, tools, &job, &mut cell)
            }
            _ => produce::run(self.context, &job, &mut cell),
        };
        self.enter(server, cell, outcome, observer);
        Some(topic)
    }

    fn consume(
        &mut self,
        side: ClientSide,
        server: &mut Server,
        topic: Option<&str>,
        mut cell: Cell,
        observer: &mut dyn Observer,
    ) {
        if self.skips(server, &mut cell) {
            return self.enter(server, cell, Ok(()), observer);
        }
        let records = self.context.plan.messages;
        let outcome = match (topic, &self.context.tools, side) {
            (None, ..) => Err(RunFailure::Failed(
                "nothing was written that could be read".to_owned(),
            )),
            (Some(topic), Some(tools), ClientSide::KafkaConsume) => {
                kafka::consume(self.context, tools, server, (topic, records), &mut cell)
            }
            (Some(topic), ..) => consume::run(self.context, server, (topic, records), &mut cell),
        };
        self.enter(server, cell, outcome, observer);
    }

    /// Whether a cell is not to be run, which it then says.
    fn skips(&self, server: &mut Server, cell: &mut Cell) -> bool {
        let reason = match server.ended() {
            _ if self.stopped() => "interrupted".to_owned(),
            Some(words) => format!("{} has ended: {words}", server.name),
            None => return false,
        };
        cell.status = CellStatus::Skipped { reason };
        true
    }

    fn enter(
        &mut self,
        server: &Server,
        mut cell: Cell,
        outcome: Result<(), RunFailure>,
        observer: &mut dyn Observer,
    ) {
        let outcome = outcome.and_then(|()| result::check_not_passed_by(server, &cell));
        match outcome {
            Ok(()) => {}
            Err(RunFailure::Interrupted) => {
                let reason = "interrupted".to_owned();
                cell.status = CellStatus::Skipped { reason };
            }
            Err(RunFailure::Failed(reason)) => {
                let reasons = vec![reason];
                cell.status = CellStatus::Invalid { reasons };
            }
        }
        observer.note(&result::line(&cell));
        self.cells.push(cell);
    }

    fn empty_cell(&self, side: ClientSide, server: &Server, rate: Option<u64>, round: u64) -> Cell {
        let mut cell = Cell {
            architecture: side.name().to_owned(),
            variant: Some(server.name.clone()),
            clients: 1,
            repetition: round,
            warm_up_s: self.context.plan.warm_up.as_secs_f64(),
            offered_records_per_s: rate.unwrap_or(0) as f64,
            ..Cell::default()
        };
        if let Some(rate) = rate {
            cell.parameters.insert(RATE.to_owned(), rate as f64);
        }
        cell
    }

    fn create_topic(&mut self, cell: &mut Cell) -> Result<String, RunFailure> {
        self.topics += 1;
        let instant_ms = self.context.clock.now_unix_ns() / 1_000_000;
        let topic = format!(
            "weir-{}-{instant_ms}-{}",
            self.context.plan.name, self.topics
        );
        let created = self.admin.create_topic(&topic, 1, 1, &[]);
        created.map_err(BenchError::from)?;
        let since_ns = self.context.clock.now_unix_ns() - self.context.started_unix_ns;
        cell.started_s = Some(since_ns as f64 / 1e9);
        Ok(topic)
    }

    fn delete_topic(&self, topic: &str) {
        if let Err(error) = self.admin.delete_topic(topic) {
            tracing::warn!(%error, topic, "topic not deleted");
        }
    }

    fn is_valid(&self) -> bool {
        self.cells.last().is_some_and(Cell::is_valid)
    }

    fn stopped(&self) -> bool {
        self.context.stop.load(Ordering::Relaxed)
    }
}

const RATE: &str = "rate_per_s";
const ADMIN_TIMEOUT: Duration = Duration::from_secs(20);
