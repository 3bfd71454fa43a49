//! `weir gateway tail`: shows the values of items as they change.

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use serde_json::{Map, Value, json};
use weir_load::clients::Mode;
use weir_load::local_time::LocalTime;
use weir_load::tail::{self, TailEnd, TailEvent, TailOptions};
use weir_load::units::parse_duration;

use super::tail_fields;
use crate::cmd::text_table::one_line;
use crate::cmd::trust_args::TrustArgs;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

pub(super) const AFTER_HELP: &str = "\
Examples:
  weir gateway tail 'orders-[key=7]'
  weir gateway tail orders --mode distinct --fields 'KEY VALUE' --json \\
    --count 10
  weir gateway tail --url wss://gw.example:8443 --ca ca.pem \\
    --token-file token.jwt 'quote-[symbol=X]' --fields last";

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// Items, as in a subscription
    #[arg(value_name = "ITEM", required = true)]
    items: Vec<String>,
    /// Fields to show, separated by blanks [default: all that --admin lists]
    #[arg(long, value_name = "FIELDS")]
    fields: Option<String>,
    /// Admin port of the gateway, which lists the fields
    #[arg(
        long,
        value_name = "URL|ADDRESS:PORT",
        default_value = "http://127.0.0.1:8090"
    )]
    admin: String,
    /// Address of the gateway for clients
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8080")]
    url: String,
    #[command(flatten)]
    trust: TrustArgs,
    /// Subscription mode: merge shows current values, distinct and raw every record
    #[arg(long, value_name = "MODE", default_value = "merge", ignore_case = true,
          value_parser = ["merge", "distinct", "raw", "command"])]
    mode: String,
    /// Adapter set of the gateway
    #[arg(long, value_name = "NAME", default_value = "KafkaConnector")]
    adapter_set: String,
    /// Kafka connection (data adapter) [default: the one named DEFAULT]
    #[arg(long, value_name = "NAME")]
    data_adapter: Option<String>,
    /// Show only changes, not the current values first
    #[arg(long)]
    no_snapshot: bool,
    /// User name of the session
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// File with the token or password of the session; - is standard input
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Stop after this number of updates
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Longest wait for the gateway at the start; later it is retried until Ctrl-C
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    timeout: Duration,
    /// Print one JSON object per update
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &TailArgs) -> Result<Exit, Failure> {
    let options = options(args).or_exit(Exit::Usage)?;
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let mut printer = Printer {
        options: &options,
        is_json: args.json,
        is_subscribed: false,
        left: args.count,
        clock: LocalTime::system(),
    };
    let end = tail::run(&options, &stop, &mut |event| printer.print(&event))?;
    match end {
        TailEnd::ByServer(reason) => Err(Failure::new(Exit::Unreachable, anyhow!(reason))),
        TailEnd::Stopped if printer.left.unwrap_or(0) > 0 => Ok(Exit::Interrupted),
        TailEnd::Stopped => Ok(Exit::Success),
    }
}

fn options(args: &TailArgs) -> anyhow::Result<TailOptions> {
    let blank = args
        .items
        .iter()
        .find(|item| item.contains(char::is_whitespace));
    if let Some(item) = blank {
        return Err(anyhow!(
            "item \"{item}\": names contain no blanks; pass several arguments"
        ));
    }
    let mode = Mode::from_word(&args.mode.to_ascii_uppercase());
    let fields = match &args.fields {
        Some(fields) => fields.split_whitespace().map(str::to_owned).collect(),
        None => tail_fields::fields(&args.admin, args.data_adapter.as_deref(), args.timeout)?,
    };
    ensure!(!fields.is_empty(), "--fields: name at least one field");
    Ok(TailOptions {
        url: args.url.clone(),
        tls: args.trust.read()?,
        user: args.user.clone(),
        password: args.token_file.as_ref().map(token).transpose()?,
        adapter_set: args.adapter_set.clone(),
        data_adapter: args.data_adapter.clone(),
        items: args.items.clone(),
        fields,
        mode: mode.context("--mode")?,
        snapshot: !args.no_snapshot,
        timeout: args.timeout,
    })
}

fn token(path: &PathBuf) -> anyhow::Result<String> {
    let text = match path.as_os_str() == "-" {
        true => io::read_to_string(io::stdin()),
        false => std::fs::read_to_string(path),
    };
    let text = text.with_context(|| format!("--token-file \"{}\"", path.display()))?;
    Ok(text.trim_end().to_owned())
}

/// Length of a date and a blank.
const DATE_LEN: usize = 11;

/// Writes updates to standard output, everything else to the log.
struct Printer<'a> {
    options: &'a TailOptions,
    is_json: bool,
    is_subscribed: bool,
    /// Updates until the end.
    left: Option<u64>,
    clock: LocalTime,
}

impl Printer<'_> {
    fn print(&mut self, event: &TailEvent<'_>) -> ControlFlow<()> {
        match event {
            TailEvent::Update {
                item,
                values,
                is_snapshot,
            } => return self.update(*item, values, *is_snapshot),
            TailEvent::Subscribed => {
                self.is_subscribed = true;
                tracing::info!(url = self.options.url, "subscribed");
            }
            TailEvent::Lost { item, count } => {
                let item = &self.options.items[*item];
                tracing::warn!(item, count, "the gateway dropped updates");
            }
            TailEvent::Cleared { item } => {
                tracing::info!(
                    item = self.options.items[*item],
                    "the gateway cleared the item"
                );
            }
            TailEvent::Disconnected { reason } if self.is_subscribed => {
                tracing::warn!(reason, "disconnected, connecting again");
            }
            TailEvent::Disconnected { reason } => {
                tracing::warn!(
                    url = self.options.url,
                    reason,
                    "cannot connect, trying again"
                );
            }
        }
        ControlFlow::Continue(())
    }

    fn update(
        &mut self,
        item: usize,
        values: &[Option<&str>],
        is_snapshot: bool,
    ) -> ControlFlow<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |passed| passed.as_millis() as u64);
        let line = match self.is_json {
            true => self.json(item, values, is_snapshot, now_ms).to_string(),
            false => self.text(item, values, is_snapshot, now_ms),
        };
        // A reader such as `head` may end first.
        if writeln!(io::stdout(), "{line}").is_err() {
            self.left = None;
            return ControlFlow::Break(());
        }
        self.left = self.left.map(|left| left - 1);
        match self.left {
            Some(0) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn json(&self, item: usize, values: &[Option<&str>], is_snapshot: bool, now_ms: u64) -> Value {
        let values = self.options.fields.iter().zip(values);
        let values = values.map(|(name, value)| (name.clone(), json!(value)));
        json!({
            "time_ms": now_ms,
            "item": self.options.items[item],
            "snapshot": is_snapshot,
            "values": Value::Object(values.collect::<Map<_, _>>()),
        })
    }

    fn text(
        &mut self,
        item: usize,
        values: &[Option<&str>],
        is_snapshot: bool,
        now_ms: u64,
    ) -> String {
        let time = self.clock.format(now_ms * 1_000_000);
        let time = String::from_utf8_lossy(&time[DATE_LEN..]).into_owned();
        let mark = if is_snapshot { "*" } else { " " };
        let mut line = format!("{time} {mark} {}", one_line(&self.options.items[item]));
        for (name, value) in self.options.fields.iter().zip(values) {
            let value = value.map_or_else(|| "null".to_owned(), one_line);
            line.push_str(&format!("  {}={value}", one_line(name)));
        }
        line
    }
}
