//! Measures the cost of proxies: the same load through several paths to one broker, in rotation.

mod clients;
mod context;
mod cost;
mod plan;
mod produce;
mod result;
mod servers;

use std::sync::atomic::AtomicBool;

use weir_lab::{KafkaTools, LabOptions};
use weir_stats::run::Cell;

use super::figure_names::RATE;
use super::{BenchError, BenchOptions, Finished, Observer, kafka_tools};
use crate::experiment::turns::{self, CellFailure, CellLog, CellResult};
use crate::experiment::{KEEP_ALL, RunBroker, RunContext, RunDir};
use crate::plan::Valid;
use context::{ClientSide, OverheadContext, OverheadJob};
use servers::{Server, Starter};

pub use plan::{OverheadOverrides, OverheadPlan, ProxyPath};

/// Runs the plan. When `stop` becomes true, the current client is ended and the results so far are
/// written. `broker_port` is the port of a broker that is started for the run, which external
/// proxies need to know.
///
/// # Errors
/// [`BenchError`] if there is no broker, if the run directory cannot be written, or if a proxy of
/// the run does not start.
pub fn run(
    plan: &Valid<OverheadPlan>,
    options: &BenchOptions,
    broker_port: Option<u16>,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    let run_dir = RunDir::create(&plan.name, options, stop)?;
    let own = options.bootstrap.is_none();
    let relay = own.then(servers::relay_ports).transpose()?;
    let lab_options = LabOptions {
        port: broker_port,
        second_listeners: relay.into_iter().collect(),
        // Deleted segments must not fill the disk during the next repetition.
        properties: vec![("log.segment.delete.delay.ms".to_owned(), "1000".to_owned())],
        ..LabOptions::default()
    };
    let broker = RunBroker::start(options, &lab_options, observer, stop)?;
    let run = RunContext {
        run_dir: &run_dir,
        broker: &broker,
    };
    if broker.kafka.security.tls.is_some() {
        let mut proxied = plan.subjects.iter().filter(|it| **it != ProxyPath::Direct);
        if let Some(subject) = proxied.next() {
            return Err(BenchError::Encrypted(subject.name()));
        }
    }
    let tools = plan.kafka_tools.then(|| kafka_tools::find(run, observer));
    let tools: Option<KafkaTools> = tools.transpose()?;
    let (mut servers, notes) = Starter { run, relay }.start_all(plan)?;
    let context = OverheadContext {
        run,
        plan,
        tools: tools.as_ref(),
    };
    warm_up_broker(context, &servers, observer);
    let cells = run_cells(context, &mut servers, observer);
    servers.into_iter().for_each(Server::end);
    let mut run = result::describe(context);
    run.cells = cells;
    run.notes = notes;
    result::conclude(&mut run, plan, run_dir.is_stopped());
    run_dir.finish(run, broker)
}

/// Puts load on a new broker and on each subject, so that their hot paths are compiled before the
/// first cell.
fn warm_up_broker(context: OverheadContext<'_>, servers: &[Server], observer: &mut dyn Observer) {
    let records = context.plan.broker_warm_up_records;
    if records == 0 || context.run.run_dir.is_stopped() {
        return;
    }
    observer.note(&format!("warming up with {records} records"));
    for server in servers {
        let share = records / servers.len() as u64;
        let mut cell = empty_cell(context.plan, ClientSide::Produce, server, None, 0);
        if let Ok(topic) = context.new_topic(&cell.id(), &[]) {
            let job = OverheadJob {
                context,
                server,
                topic: &topic,
                records: share.max(1000),
                rate: None,
            };
            // An error also occurs in the cells that follow.
            let _ = produce::run(job, &mut cell);
            context.run.broker.delete_topic(&topic);
        }
    }
}

/// A load: what the client does, and its rate (`None`: the maximum).
type Load = (ClientSide, Option<u64>);

/// Runs every load through every subject in each repetition, in rotation, so that aftereffects of
/// one do not always hit the same next subject. Then repeats what undecided limits need.
fn run_cells(
    context: OverheadContext<'_>,
    servers: &mut [Server],
    observer: &mut dyn Observer,
) -> Vec<Cell> {
    let plan = context.plan;
    let loads = loads(context);
    let count = plan.repetitions as usize * loads.len() * servers.len();
    let all: Vec<usize> = (0..servers.len()).collect();
    let mut log = CellLog::new(context.run, observer, result::line, count);
    for repetition in 0..plan.repetitions {
        run_repetition(context, &mut log, servers, (&loads, &all), repetition);
    }
    for repetition in plan.repetitions..plan.repetitions_max {
        let undecided = result::undecided(plan, &log.cells);
        if undecided.is_empty() || log.end_reason().is_some() {
            break;
        }
        let is_needed = |load: &&Load| undecided.iter().any(|limit| limit.needs(**load));
        let loads: Vec<Load> = loads.iter().filter(is_needed).copied().collect();
        let is_compared = |at: &usize| undecided.iter().any(|it| it.compares(&servers[*at].name));
        let subjects: Vec<usize> = all.iter().copied().filter(is_compared).collect();
        log.observer.note(&format!(
            "{} limits are undecided: repetition {} of at most {}",
            undecided.len(),
            repetition + 1,
            plan.repetitions_max
        ));
        run_repetition(context, &mut log, servers, (&loads, &subjects), repetition);
    }
    log.cells
}

fn loads(context: OverheadContext<'_>) -> Vec<Load> {
    let plan = context.plan;
    let is_run = |side: &ClientSide| match side {
        ClientSide::Produce => true,
        ClientSide::Consume => plan.consume,
        ClientSide::KafkaProduce => context.tools.is_some(),
        ClientSide::KafkaConsume => plan.consume && context.tools.is_some(),
    };
    let sides = ClientSide::ALL.iter().copied().filter(is_run);
    sides
        .flat_map(|side| plan.rates(side.produces()).map(move |rate| (side, rate)))
        .collect()
}

/// Runs `loads` through the servers at the given indexes once.
fn run_repetition(
    context: OverheadContext<'_>,
    log: &mut CellLog<'_>,
    servers: &mut [Server],
    (loads, subjects): (&[Load], &[usize]),
    repetition: u32,
) {
    let plan = context.plan;
    // The consumers read one of the topics that were written at the maximum rate.
    let mut to_read: Option<String> = None;
    for &(side, rate) in loads {
        for at in turns::order(subjects, repetition as usize) {
            let server = &mut servers[at];
            let number = u64::from(repetition) + 1;
            let cell = empty_cell(plan, side, server, rate, number);
            let has_exited = server.exit_reason();
            let skip = has_exited.map(|tail| format!("{} has exited: {tail}", server.name));
            let is_whole = side == ClientSide::Produce && rate.is_none();
            // Other topics are only written: the broker may delete old records.
            let is_candidate = plan.consume && is_whole && to_read.is_none();
            let config: &[_] = if is_candidate { &KEEP_ALL } else { &[] };
            let mut written = None;
            let cell = log.turn(
                cell,
                || skip,
                |cell, _| {
                    let absent = "no topic was written that could be read";
                    let topic = match side.produces() {
                        true => &*written.insert(context.new_topic(&cell.id(), config)?),
                        false => {
                            let absent = || CellFailure::because(absent);
                            to_read.as_ref().ok_or_else(absent)?
                        }
                    };
                    let job = OverheadJob {
                        context,
                        server,
                        topic,
                        records: plan.records_at(rate),
                        rate,
                    };
                    measure(side, job, cell)
                },
            );
            match written {
                Some(topic) if is_candidate && cell.is_valid() => to_read = Some(topic),
                Some(topic) => context.run.broker.delete_topic(&topic),
                None => {}
            }
        }
    }
    if let Some(topic) = to_read {
        context.run.broker.delete_topic(&topic);
    }
}

fn measure(side: ClientSide, job: OverheadJob<'_>, cell: &mut Cell) -> CellResult {
    match (side, job.context.tools) {
        (ClientSide::KafkaProduce, Some(tools)) => clients::kafka_produce(tools, job, cell),
        (ClientSide::KafkaConsume, Some(tools)) => clients::kafka_consume(tools, job, cell),
        (ClientSide::Produce | ClientSide::KafkaProduce, _) => produce::run(job, cell),
        (ClientSide::Consume | ClientSide::KafkaConsume, _) => clients::consume(job, cell),
    }?;
    result::check_not_bypassed(job.server, cell)
}

fn empty_cell(
    plan: &OverheadPlan,
    side: ClientSide,
    server: &Server,
    rate: Option<u64>,
    repetition: u64,
) -> Cell {
    let rate = rate.map(|rate| rate as f64);
    Cell {
        architecture: side.name().to_owned(),
        variant: Some(server.name.clone()),
        clients: 1,
        parameters: rate.iter().map(|rate| (RATE.to_owned(), *rate)).collect(),
        repetition,
        warm_up_s: plan.warm_up.as_secs_f64(),
        offered_records_per_s: rate.unwrap_or(0.0),
        ..Cell::default()
    }
}
