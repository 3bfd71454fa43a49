//! `weir proxy connections`: the open connections of a running proxy, over its admin port.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use weir_report::{TextColumn, TextTable};

use super::admin_client::{AdminClient, AdminClientArgs};
use crate::cmd::text_table::{add_row, print_table};
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal::{self, SignalPipe};

#[derive(Debug, Args)]
pub(crate) struct ProxyConnectionsArgs {
    #[command(flatten)]
    admin: AdminClientArgs,
    /// Order of the rows, largest value first
    #[arg(long, value_enum, default_value_t = SortKey::Bytes)]
    sort: SortKey,
    /// Virtual cluster of the connections [default: all]
    #[arg(long, value_name = "NAME")]
    virtual_cluster: Option<String>,
    /// Maximum number of rows, 0 for all
    #[arg(long, value_name = "COUNT", default_value_t = 40)]
    limit: usize,
    /// Repeat every second until Ctrl-C; requests and bytes are then per second
    #[arg(long)]
    watch: bool,
    /// Print JSON instead of text, with `--watch` one object per line
    #[arg(long)]
    json: bool,
}

/// Column by which rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortKey {
    Bytes,
    Requests,
    InFlight,
    Buffered,
    Age,
    Idle,
    /// Address of the client, in alphabetical order.
    Client,
}

/// Interval of `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);
/// Moves the cursor to the first place of the terminal and removes what follows.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Requests, bytes of requests and bytes of responses of each connection, by client.
type Counts = HashMap<String, [u64; 3]>;
/// Names of these numbers in `/connections`.
const COUNTS: [&str; 3] = ["requests", "request_bytes", "response_bytes"];

pub(super) fn run(args: &ProxyConnectionsArgs) -> Result<Exit, Failure> {
    let client = AdminClient::new(&args.admin)?;
    if !args.watch {
        let rows = load(args, &client)?;
        print(args, sorted(args.sort, rows), "");
        return Ok(Exit::Success);
    }
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let pipe = SignalPipe::open().or_exit(Exit::Tool)?;
    let clear = match std::io::stdout().is_terminal() && !args.json {
        true => CLEAR,
        false => "",
    };
    let (mut before, mut read) = (None::<Counts>, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let mut rows = load(args, &client)?;
        let elapsed = read.elapsed();
        read = Instant::now();
        let now = rows.iter().map(|row| (client_of(row), counts(row)));
        let now = now.collect();
        if let Some(before) = before.replace(now) {
            rows.iter_mut().for_each(|row| rate(row, &before, elapsed));
            print(args, sorted(args.sort, rows), clear);
        }
        pipe.wait(INTERVAL).or_exit(Exit::Tool)?;
    }
    Ok(Exit::Success)
}

/// Returns the rows of the connections.
fn load(args: &ProxyConnectionsArgs, client: &AdminClient) -> Result<Vec<Value>, Failure> {
    let mut page = client.get("connections")?;
    let Value::Array(mut rows) = page["connections"].take() else {
        return Ok(Vec::new());
    };
    if let Some(name) = &args.virtual_cluster {
        rows.retain(|row| row["cluster"] == **name);
    }
    Ok(rows)
}

fn client_of(row: &Value) -> String {
    row["client"].as_str().unwrap_or_default().to_owned()
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(0)
}

fn counts(row: &Value) -> [u64; 3] {
    COUNTS.map(|name| number(row, name))
}

/// Replaces the counts of a row by those per second since they were `before`.
fn rate(row: &mut Value, before: &Counts, elapsed: Duration) {
    let before = before.get(&client_of(row)).copied().unwrap_or_default();
    for (name, before) in COUNTS.into_iter().zip(before) {
        let added = number(row, name).saturating_sub(before) as f64;
        row[name] = json!((added / elapsed.as_secs_f64()).round() as u64);
    }
}

fn sorted(key: SortKey, mut rows: Vec<Value>) -> Vec<Value> {
    let value = |row: &Value| match key {
        SortKey::Bytes => number(row, "request_bytes") + number(row, "response_bytes"),
        SortKey::Requests => number(row, "requests"),
        SortKey::InFlight => number(row, "in_flight"),
        SortKey::Buffered => number(row, "buffered_bytes"),
        SortKey::Age => number(row, "age_ms"),
        SortKey::Idle => number(row, "idle_ms"),
        SortKey::Client => 0,
    };
    rows.sort_by_cached_key(|row| (Reverse(value(row)), client_of(row)));
    rows
}

fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

fn print(args: &ProxyConnectionsArgs, mut rows: Vec<Value>, clear: &str) {
    let total = rows.len();
    if args.limit > 0 {
        rows.truncate(args.limit);
    }
    if args.json {
        return println!("{}", json!({ "connections": rows, "total": total }));
    }
    print!("{clear}");
    let [requests, bytes_in, bytes_out] = match args.watch {
        true => ["requests/s", "in/s", "out/s"],
        false => ["requests", "in", "out"],
    };
    let mut table = TextTable::new(&[
        TextColumn::text("client", 50),
        TextColumn::text("principal", 30).cut(12),
        TextColumn::text("cluster", 20).cut(8),
        TextColumn::text("broker", 50).cut(10),
        TextColumn::number(requests),
        TextColumn::number(bytes_in),
        TextColumn::number(bytes_out),
        TextColumn::number("in flight"),
        TextColumn::number("buffered"),
        TextColumn::number("age"),
        TextColumn::number("idle"),
        TextColumn::text("software", 40).cut(10),
    ]);
    for row in &rows {
        let text = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
        let bytes = |name: &str| bytes_text(number(row, name));
        let seconds = |name: &str| format!("{} s", number(row, name) / 1_000);
        let cells = [
            text("client"),
            text("principal"),
            text("cluster"),
            text("broker"),
            number(row, "requests").to_string(),
            bytes("request_bytes"),
            bytes("response_bytes"),
            number(row, "in_flight").to_string(),
            bytes("buffered_bytes"),
            seconds("age_ms"),
            seconds("idle_ms"),
            text("software"),
        ];
        add_row(&mut table, &cells.each_ref().map(String::as_str));
    }
    print_table(&table, "");
    println!("{} of {total} connections", rows.len());
}
