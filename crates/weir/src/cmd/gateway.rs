//! `weir gateway`: runs the gateway, checks its configuration, and serves its operators.

mod admin_client;
mod check;
mod config;
mod explain;
mod explain_access;
mod explain_text;
mod init;
mod message_check;
mod record_file;
mod registry_check;
mod sampling;
mod sessions;
mod size;
mod tail;
mod tail_fields;
mod topic_check;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use weir_gateway::config::CliOverrides;
use weir_gateway::{Gateway, client_addresses};
use weir_mapping::Severity;

use self::config::{GatewayConfigArgs, load};
use super::server::{self, Server, Signals};
use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run the gateway until Ctrl-C or SIGTERM
    ///
    /// Clients connect with any Lightstreamer SDK over WebSocket. The gateway checks their sessions
    /// and subscriptions against the configuration. Metrics and health are on the admin port.
    /// SIGHUP reloads the certificate and its key, and opens the audit log again.
    #[command(
        after_help = "Example:\n  weir gateway run --adapters adapters.xml\n  \
        curl http://127.0.0.1:8090/health/ready"
    )]
    Run(GatewayRunArgs),
    /// Check a configuration and its schema registries
    ///
    /// Lists every parameter of every connection as honoured, ignored (with the reason) or refused
    /// (with a remedy). The exit code is 2 if a parameter is refused. The command reads schema
    /// files. Unless --offline is given, it also looks up the subjects of the mapped topics in
    /// schema registries, and at brokers the topics that match a pattern or get client messages.
    /// The exit code is 3 if one of them does not respond.
    #[command(
        after_help = "Example:\n  weir gateway check --adapters adapters.xml\n  \
        weir gateway check --adapters adapters.xml --strict --json"
    )]
    Check(check::GatewayCheckArgs),
    /// Show the items and field values of a record, and the reasons for mismatches
    ///
    /// The record comes from a file or from a topic of a running cluster. The command writes
    /// nothing to the cluster and joins no consumer group. The exit code is 0 if the record would
    /// be delivered (with --item, to that item), otherwise 1.
    #[command(after_help = explain::AFTER_HELP)]
    Explain(explain::ExplainArgs),
    /// Write a configuration and a web page for topics of a cluster
    ///
    /// Reads the newest records of each topic and prints the fields that it found. Writes two
    /// files: gateway.toml with comments, and index.html, which shows live values without any
    /// library.
    #[command(after_help = init::AFTER_HELP)]
    Init(init::InitArgs),
    /// Show the values of items as they change
    ///
    /// Connects to a gateway like any client and prints one line per update until Ctrl-C. Lines
    /// with the state at the start are marked with *. If the connection is lost, the command
    /// connects again. The exit code is 3 if the gateway cannot be reached or refuses the session
    /// or the subscription, and 130 if Ctrl-C ends the command before --count updates.
    #[command(after_help = tail::AFTER_HELP)]
    Tail(tail::TailArgs),
    /// Estimate cores, memory and bandwidth for a number of clients
    ///
    /// Assumes that one gateway is down and the others serve all clients. Opens no connections.
    #[command(after_help = size::AFTER_HELP)]
    Size(size::SizeArgs),
    /// List, trace and end the sessions of a running gateway
    ///
    /// The commands use the admin port with the token of [admin.sessions] in gateway.toml. The exit
    /// code is 1 if no session matches, 2 for a wrong token, and 3 if the gateway does not respond.
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
}

#[derive(Debug, Args)]
pub(crate) struct GatewayRunArgs {
    #[command(flatten)]
    files: GatewayConfigArgs,
    /// Topic to deliver without a configuration file; repeatable
    ///
    /// Items are TOPIC-[key=KEY], and TOPIC for all records. Fields are the members of JSON values,
    /// or key and value if the newest records are not JSON objects. Clients get the last record of
    /// an item at once. `weir gateway init` writes the same configuration to a file.
    #[arg(
        long = "topic",
        value_name = "TOPIC",
        conflicts_with_all = ["adapters", "config"]
    )]
    topics: Vec<String>,
    /// Kafka bootstrap servers for --topic [default: from --kafka-config, else localhost:9092]
    #[arg(long, value_name = "HOST:PORT", requires = "topics")]
    bootstrap: Option<String>,
    /// Client address [default: 0.0.0.0:8080, with --topic 127.0.0.1:8080]
    ///
    /// Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Address of dashboard, metrics and health [default: 127.0.0.1:8090]
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// Number of event loops [default: one per core]
    #[arg(long, value_name = "COUNT")]
    event_loops: Option<usize>,
    /// File written when the gateway is ready, with addresses and process id as JSON
    ///
    /// The gateway is ready when all Kafka connections are ready.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

pub(crate) fn run(command: GatewayCommand) -> Result<Exit, Failure> {
    match command {
        GatewayCommand::Run(args) => serve(&args),
        GatewayCommand::Check(args) => check::run(&args),
        GatewayCommand::Explain(args) => explain::run(&args),
        GatewayCommand::Init(args) => init::run(&args),
        GatewayCommand::Tail(args) => tail::run(&args),
        GatewayCommand::Size(args) => size::run(&args),
        GatewayCommand::Sessions(command) => sessions::run(&command),
    }
}

fn serve(args: &GatewayRunArgs) -> Result<Exit, Failure> {
    let mut signals = Signals::register()?;
    let overrides = CliOverrides {
        listen: args.listen,
        admin: args.admin,
        event_loops: args.event_loops,
        ..CliOverrides::default()
    };
    let overrides = quick_start(args, overrides)?;
    let config = load(&args.files, &overrides)?;
    for note in &config.notes {
        match note.severity {
            Severity::Warning => tracing::warn!("{}: {}", note.at, note.text),
            Severity::Info => tracing::info!("{}: {}", note.at, note.text),
        }
    }
    let has_certificates = config.tls.is_some() || config.admin.tls.is_some();
    signals.reload_if(has_certificates || config.audit.is_some())?;
    let descriptors = server::raise_descriptor_limit();
    if config.limits.sessions as u64 + 100 > descriptors {
        tracing::info!(
            limit = descriptors,
            sessions = config.limits.sessions,
            "file descriptor limit is below limits.sessions"
        );
    }
    let scheme = config.admin.scheme();
    let gateway = Gateway::start(config)?;
    let addresses = client_addresses(gateway.listen_address(), gateway.tls_address());
    let admin = gateway.admin_address();
    tracing::info!(%addresses, admin = %format_args!("{scheme}://{admin}"), "gateway started");
    server::run(gateway, &signals, args.ready_file.as_deref())
}

/// Adds the configuration of `--topic`. Logs for each topic what was found in sampled records, and
/// a command that shows its values.
fn quick_start(args: &GatewayRunArgs, overrides: CliOverrides) -> Result<CliOverrides, Failure> {
    if args.topics.is_empty() {
        return Ok(overrides);
    }
    let kafka = args.files.kafka_at(args.bootstrap.clone());
    let samples = sampling::sample(&kafka, &args.topics)?;
    for (index, sample) in samples.iter().enumerate() {
        tracing::info!("{}", sampling::describe(sample));
        let command = sampling::tail_command(sample, index, args.listen);
        tracing::info!("to see values: {command}");
    }
    let connections = sampling::connections(&samples, &kafka.servers());
    Ok(CliOverrides {
        generated: Some(format!("{QUICK_START_HEAD}{connections}")),
        example_fields: sampling::example_fields(&samples),
        ..overrides
    })
}

/// Start of the configuration for `--topic`. Clients need no login, so without `--listen` only this
/// machine can connect.
const QUICK_START_HEAD: &str =
    "listen = \"127.0.0.1:8080\"\n[last_values]\nmemory_bytes = 268435456\n";

impl Server for Gateway {
    fn is_ready(&self) -> bool {
        self.ready()
    }

    fn log_unready(&self) {
        for (connection, error) in self.unready_connections() {
            let error = error.unwrap_or_else(|| "waiting for the brokers".to_owned());
            tracing::warn!(%connection, %error, "Kafka connection not ready, retrying");
        }
    }

    fn reload_files(&self) {
        self.reload();
    }

    fn ready_file(&self) -> serde_json::Value {
        serde_json::json!({
            "listen": self.listen_address().to_string(),
            "tls": self.tls_address().map(|address| address.to_string()),
            "admin": self.admin_address().to_string(),
        })
    }

    fn shut_down(self) -> Vec<String> {
        Self::shut_down(self)
    }
}
