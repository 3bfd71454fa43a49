//! Measures the cost of proxies: the same load through several paths to one broker, in rotation.

mod consume;
mod context;
mod kafka;
mod measure;
mod plan;
mod produce;
mod result;
mod servers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_kafka::Admin;
use weir_lab::{KafkaTools, Lab, LabOptions};
use weir_stats::run::{Cell, CellStatus};
use weir_stats::utc;

use super::{BenchError, BenchOptions, Finished, Observer};
use context::{ClientSide, OverheadContext, RATE, RunFailure};
use produce::ProduceRun;
use servers::{Server, Starter};
use weir_load::clock::Clock;

pub use plan::{
    BUILT_IN_FILE, BUILT_IN_TEXT, FigureLimit, OverheadOverrides, OverheadPlan, ProxyPath,
};

/// Runs the plan. When `stop` becomes true, the current client is ended and the results so far are
/// written. `broker_port` is the port of a broker that is started for the run, which external
/// proxies need to know.
///
/// # Errors
/// [`BenchError`] if there is no broker, if the run directory cannot be written, or if a proxy of
/// the run does not start.
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
        // Deleted segments must not fill the disk during the next repetition.
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
    let mut runner = OverheadRunner::new(&context, &admin);
    runner.warm_up_broker(&servers, observer);
    runner.run_all(&mut servers, observer);
    let cells = runner.cells;
    servers.into_iter().for_each(Server::end);
    let kafka = lab.as_ref().map(|lab| lab.kafka_version().to_owned());
    let mut run = result::describe(&context, options, &bootstrap, kafka);
    run.started_utc = utc::rfc3339(started_s);
    run.finished_utc = utc::rfc3339(clock.now_unix_ns() / 1_000_000_000);
    run.cells = cells;
    run.notes = notes;
    result::conclude(&mut run, plan, stop.load(Ordering::Relaxed));
    if let Some(Err(error)) = lab.map(Lab::down) {
        let text = format!("the broker did not shut down cleanly: {error}");
        run.warnings.push(text);
    }
    super::write_run(&context.dir, &run)?;
    Ok(Finished {
        dir: context.dir,
        run,
    })
}

/// Starts all subjects. Returns them and notes about those that are not available.
fn start_all(starter: &Starter<'_>) -> Result<(Vec<Server>, Vec<String>), BenchError> {
    let (mut servers, mut notes) = (Vec::new(), Vec::new());
    for &subject in &starter.plan.subjects {
        match starter.start(subject)? {
            Some(server) => servers.push(server),
            None => notes.push(format!(
                "{} skipped: only a broker started for the run can advertise its address",
                subject.name()
            )),
        }
    }
    for (name, address) in &starter.plan.external_proxies {
        let server = starter.external_proxy(name, address);
        if server.pids.is_empty() {
            notes.push(format!(
                "{name} at {address}: its process is not on this machine, cost not measured"
            ));
        }
        servers.push(server);
    }
    Ok((servers, notes))
}

/// Runs the repetitions and stores their cells.
struct OverheadRunner<'a> {
    context: &'a OverheadContext<'a>,
    admin: &'a Admin,
    cells: Vec<Cell>,
    topics: u64,
}

impl<'a> OverheadRunner<'a> {
    fn new(context: &'a OverheadContext<'a>, admin: &'a Admin) -> Self {
        Self {
            context,
            admin,
            cells: Vec::new(),
            topics: 0,
        }
    }

    /// Puts load on a new broker and on each subject, so that their hot paths are compiled before
    /// the first cell.
    fn warm_up_broker(&mut self, servers: &[Server], observer: &mut dyn Observer) {
        let records = self.context.plan.broker_warm_up_records;
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
                // An error also occurs in the cells that follow.
                let _ = produce::run(self.context, &job, &mut cell);
                self.delete_topic(&topic);
            }
        }
    }

    fn run_all(&mut self, servers: &mut [Server], observer: &mut dyn Observer) {
        let repetitions = u64::from(self.context.plan.repetitions);
        let sides = if self.context.tools.is_some() { 2 } else { 1 };
        let loads = self.context.plan.rates().count() + usize::from(self.context.plan.consume);
        let cells = repetitions as usize * sides * loads * servers.len();
        for repetition in 1..=repetitions {
            self.repetition(repetition, cells, servers, observer);
        }
    }

    /// Runs every load through every subject. A different subject comes first in each repetition,
    /// so that aftereffects of one do not always hit the same next subject.
    fn repetition(
        &mut self,
        repetition: u64,
        cells: usize,
        servers: &mut [Server],
        observer: &mut dyn Observer,
    ) {
        let count = servers.len();
        let first = (repetition as usize - 1) % count;
        let order: Vec<usize> = (0..count).map(|at| (first + at) % count).collect();
        let mut topic_to_read = None;
        let producing = [ClientSide::Produce, ClientSide::KafkaProduce];
        let has_tools = self.context.tools.is_some();
        for side in producing
            .into_iter()
            .filter(|side| has_tools || *side == ClientSide::Produce)
        {
            for rate in self.context.plan.rates() {
                for &at in &order {
                    let cell = self.empty_cell(side, &servers[at], rate, repetition);
                    observer.cell(self.cells.len() + 1, cells, &cell.id());
                    let topic = self.produce(side, &mut servers[at], rate, cell, observer);
                    // The consumers read one of these topics.
                    let is_complete =
                        side == ClientSide::Produce && rate.is_none() && topic_to_read.is_none();
                    match topic {
                        Some(topic) if is_complete && self.is_valid() => {
                            topic_to_read = Some(topic)
                        }
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
                    let cell = self.empty_cell(side, &servers[at], None, repetition);
                    observer.cell(self.cells.len() + 1, cells, &cell.id());
                    let topic = topic_to_read.as_deref();
                    self.consume(side, &mut servers[at], topic, cell, observer);
                }
            }
        }
        if let Some(topic) = topic_to_read {
            self.delete_topic(&topic);
        }
    }

    /// Runs a producer cell and returns its topic, which the caller deletes.
    fn produce(
        &mut self,
        side: ClientSide,
        server: &mut Server,
        rate: Option<u64>,
        mut cell: Cell,
        observer: &mut dyn Observer,
    ) -> Option<String> {
        if self.skip(server, &mut cell) {
            self.finish_cell(server, cell, Ok(()), observer);
            return None;
        }
        let topic = match self.create_topic(&mut cell) {
            Ok(topic) => topic,
            Err(failure) => {
                self.finish_cell(server, cell, Err(failure), observer);
                return None;
            }
        };
        let job = ProduceRun {
            server,
            topic: &topic,
            records: self.context.plan.records_at(rate),
            rate,
        };
        let outcome = match (&self.context.tools, side) {
            (Some(tools), ClientSide::KafkaProduce) => {
                kafka::produce(self.context, tools, &job, &mut cell)
            }
            _ => produce::run(self.context, &job, &mut cell),
        };
        self.finish_cell(server, cell, outcome, observer);
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
        if self.skip(server, &mut cell) {
            return self.finish_cell(server, cell, Ok(()), observer);
        }
        let records = self.context.plan.records;
        let outcome = match (topic, &self.context.tools, side) {
            (None, ..) => Err(RunFailure::Failed(
                "no topic was written that could be read".to_owned(),
            )),
            (Some(topic), Some(tools), ClientSide::KafkaConsume) => {
                kafka::consume(self.context, tools, server, (topic, records), &mut cell)
            }
            (Some(topic), ..) => consume::run(self.context, server, (topic, records), &mut cell),
        };
        self.finish_cell(server, cell, outcome, observer);
    }

    /// Returns `true` if a cell must be skipped, and sets the reason in it.
    fn skip(&self, server: &mut Server, cell: &mut Cell) -> bool {
        let reason = match server.exit_reason() {
            _ if self.stopped() => "interrupted".to_owned(),
            Some(log_tail) => format!("{} has exited: {log_tail}", server.name),
            None => return false,
        };
        cell.status = CellStatus::Skipped { reason };
        true
    }

    fn finish_cell(
        &mut self,
        server: &Server,
        mut cell: Cell,
        outcome: Result<(), RunFailure>,
        observer: &mut dyn Observer,
    ) {
        let outcome = outcome.and_then(|()| result::check_not_bypassed(server, &cell));
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

    fn empty_cell(
        &self,
        side: ClientSide,
        server: &Server,
        rate: Option<u64>,
        repetition: u64,
    ) -> Cell {
        let mut cell = Cell {
            architecture: side.name().to_owned(),
            variant: Some(server.name.clone()),
            clients: 1,
            repetition,
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
        let now_ms = self.context.clock.now_unix_ns() / 1_000_000;
        let topic = format!("weir-{}-{now_ms}-{}", self.context.plan.name, self.topics);
        let created = self.admin.create_topic(&topic, 1, 1, &[]);
        created.map_err(BenchError::from)?;
        let since_ns = self.context.clock.now_unix_ns() - self.context.started_unix_ns;
        cell.started_s = Some(since_ns as f64 / 1e9);
        Ok(topic)
    }

    fn delete_topic(&self, topic: &str) {
        if let Err(error) = self.admin.delete_topic(topic) {
            tracing::warn!(%error, topic, "deleting the topic failed");
        }
    }

    fn is_valid(&self) -> bool {
        self.cells.last().is_some_and(Cell::is_valid)
    }

    fn stopped(&self) -> bool {
        self.context.stop.load(Ordering::Relaxed)
    }
}

const ADMIN_TIMEOUT: Duration = Duration::from_secs(20);
