//! `weir load produce`: records written on a fixed schedule.

use std::sync::atomic::AtomicBool;

use clap::Args;
use weir_load::pacer::Rate;
use weir_load::producer::{self, ProducerOptions};
use weir_load::worker::protocol::{ProduceSummary, Quantiles};

use crate::cmd::load_common::{
    OutputArgs, ProgressDelta, ProgressDisplay, exit_for, microseconds, print_errors, row,
    run_worker, time,
};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

const AFTER_HELP: &str = "\
Kinds, as in the published generator: the key, then the value. TIMESTAMP is the due time as \
yyyy-MM-dd HH:mm:ss.SSS in local time.
  base           no key; TIMESTAMP-pid-N-TEXT
  keyed          one of 40 fruits; as base
  json           one of 40 fruits; {timestamp, fstValue (512 characters),
                 sndValue (the key), intNum}
  json-extended  a fruit repeated to 500 characters; as json
  json2          as json, with the stamp as member weir
  complex        one of 40 first names; {id, firstText ... fourthText
                 (256 characters), firstnumber, secondNumber ... fourthNumber,
                 hobbies [3], timestamp}; each record changes one text and one
                 number
  verycomplex    as complex, with `changes` (20 characters) after id; each
                 record changes `changes` and one number
  json-members   one of 40 fruits; {timestamp, key, m0 ... m19 (24 characters)};
                 each record changes a tenth of the members
  random         no key; --size bytes, of which the share --entropy is random
  avro, protobuf one of 40 fruits; a record of --schema, by default with the
                 members of json2
  jsonkeyx       {timestamp, nameId, sndValue, intNum,
                 names [1024; 998 is the id]}; as verycomplex

Arguments of the published generator, in its order:
  1 bootstrap servers   --bootstrap        5 message size    --size
  2 topic               --topic            6 kind            --kind
  3 producers           --producers        7 mark records    --mark
  4 pause in ms         --pause 100ms      8 extended key    --extended-key

Unlike in the published generator, due times do not depend on the broker, and no objects with \
old timestamps are sent first.

With --registry or --schema-id, values of json2, avro and protobuf contain a schema id.

Examples: loads of the published scenarios 1, 2 and 3
  weir load produce --topic LTest --kind base --producers 2 --pause 500ms \\
    --create-topic
  weir load produce --topic LTest --producers 10 --pause 100ms --duration 1m
  weir load produce --topic LTest --kind complex --producers 10 \\
    --pause 100ms --duration 1m

Example: values of your own schema, registered as Orders-value
  weir load produce --topic Orders --kind avro --schema orders.avsc \\
    --time-field created_at --registry http://127.0.0.1:8081 --rate 1k";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ProduceArgs {
    #[command(flatten)]
    options: ProducerOptions,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &ProduceArgs) -> Result<Exit, Failure> {
    let options = &args.options;
    if args.output.worker {
        return run_worker(|link| producer::run(options, link));
    }
    options.reject_unused()?;
    let rate = options.rate()?;
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let mut progress = ProgressDisplay::new(args.output.json, options.duration);
    let result = load_local::run(
        &stop,
        |link| producer::run(options, link),
        |event| progress.show(event, "", |change| status(rate, change)),
    );
    progress.end();
    let summary = result?;
    args.output.summary.write(&summary)?;
    if !progress.quiet {
        print_summary(&summary);
    }
    Ok(verdict(options, &summary, &stop))
}

fn status(rate: Rate, change: &ProgressDelta) -> String {
    format!(
        "{:.0} of {rate} records/s  lag p50 {} p99 {}  in flight {}  acknowledged {}  failed {}",
        change.per_s("sent"),
        microseconds(change.now.p50_us),
        microseconds(change.now.p99_us),
        change.total("in_flight"),
        change.total("acked"),
        change.total("failed"),
    )
}

/// Returns the exit code and prints the reason of a failure to standard error.
fn verdict(options: &ProducerOptions, summary: &ProduceSummary, stop: &AtomicBool) -> Exit {
    if summary.transactions.is_some_and(|it| it.failed > 0) {
        let reasons: Vec<&str> = summary.errors.keys().map(String::as_str).collect();
        eprintln!("weir: {}", reasons.join("; "));
        return Exit::Unreachable;
    }
    let unsent = summary.due - summary.sent.min(summary.due);
    let missing = unsent + summary.unacknowledged;
    if missing > 0 || summary.failed > 0 {
        eprintln!(
            "weir: {} of {} records were not acknowledged by \"{}\"",
            summary.due - summary.acked.min(summary.due),
            summary.due,
            options.kafka.servers()
        );
        return Exit::Unreachable;
    }
    if u128::from(summary.schedule_lag.p99_ns) > options.max_lag.as_nanos() {
        let cause = match summary.queue_full {
            0 => "this machine is too slow or too busy for the rate".to_owned(),
            times => {
                format!("the send queue was full {times} times because the broker is too slow")
            }
        };
        eprintln!(
            "weir: p99 schedule lag {} exceeds --max-lag {}: {cause}",
            time(summary.schedule_lag.p99_ns),
            time(u64::try_from(options.max_lag.as_nanos()).unwrap_or(u64::MAX)),
        );
        return Exit::Tool;
    }
    exit_for(stop, options.duration.is_some() || options.count.is_some())
}

fn quantiles_text(quantiles: &Quantiles) -> String {
    // The values of a distribution without samples are zero.
    let shown = |ns: u64| match quantiles.count {
        0 => "–".to_owned(),
        _ => time(ns),
    };
    format!(
        "p50 {}, p99 {}, max {}",
        shown(quantiles.p50_ns),
        shown(quantiles.p99_ns),
        shown(quantiles.max_ns)
    )
}

fn print_summary(summary: &ProduceSummary) {
    let elapsed_s = summary.elapsed_ns as f64 / 1e9;
    let achieved = summary.sent as f64 / elapsed_s.max(1e-9);
    println!();
    row("due", summary.due);
    let target = match summary.target_rate_millis {
        0 => "unlimited".to_owned(),
        millis => (millis as f64 / 1000.0).to_string(),
    };
    let sent = summary.sent;
    let rates = format_args!("{elapsed_s:.2} s, {achieved:.1} records/s, target {target}");
    row("sent", format_args!("{sent} in {rates}"));
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (sent, wire) = (mib(summary.bytes_sent), mib(summary.wire_bytes_sent));
    let bytes = format_args!("{sent:.2} MiB of keys and values, {wire:.2} MiB to brokers");
    row("bytes", bytes);
    row("acknowledged", summary.acked);
    row("failed", summary.failed);
    row("unacknowledged", summary.unacknowledged);
    row("queue full", summary.queue_full);
    row("schedule lag", quantiles_text(&summary.schedule_lag));
    row("publish ack", quantiles_text(&summary.publish_ack));
    if let Some(transactions) = &summary.transactions {
        let commit = quantiles_text(&transactions.commit);
        let counts = format_args!("{} committed, commit {commit}", transactions.committed);
        row("transactions", counts);
    }
    print_errors(&summary.errors);
}
