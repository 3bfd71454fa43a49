//! `weir gateway run|check|explain`.

mod check;
mod explain;
mod explain_text;
mod record_file;
mod table;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use weir_gateway::config::CliOverrides;
use weir_gateway::{Gateway, GatewayConfig, GatewayError, client_addresses};
use weir_mapping::{ParseOptions, Severity};

use crate::descriptors;
use crate::exit::{self, Exit, Failure};
use crate::signal;

/// How often the command looks at the stop flag and at the connections.
const LOOK: Duration = Duration::from_millis(50);
/// The same once the gateway is ready: every look costs what a few deliveries cost.
const LOOK_LATER: Duration = Duration::from_millis(100);
/// How often it says that a connection is still not ready.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What the gateway can do.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Serve clients until Ctrl-C or SIGTERM.
    ///
    /// Clients connect with any Lightstreamer SDK over WebSocket; sessions and subscriptions are
    /// checked against the configuration. Metrics and health are on the admin port. SIGHUP reads the
    /// certificate and its key again.
    #[command(
        after_help = "Example:\n  weir gateway run --adapters adapters.xml\n  \
        curl http://127.0.0.1:8090/health/ready"
    )]
    Run(GatewayRunArgs),
    /// Read a configuration and say what it means, without connecting to anything.
    ///
    /// Lists every parameter of every connection: honoured, ignored (with the reason) or refused
    /// (with the remedy). Ends with code 2 if anything is refused.
    #[command(
        after_help = "Example:\n  weir gateway check --adapters adapters.xml\n  \
        weir gateway check --adapters adapters.xml --strict --json"
    )]
    Check(check::GatewayCheckArgs),
    /// Show which items and field values a record yields, and why something does not match.
    ///
    /// The record comes from a file or from a topic of a running cluster; nothing is written and
    /// no consumer group is joined. Ends with code 0 if the record would be delivered (to the
    /// item given with --item, if there is one), with 1 if not.
    #[command(after_help = explain::AFTER_HELP)]
    Explain(explain::ExplainArgs),
}

/// Where the configuration comes from.
#[derive(Debug, Args)]
pub(crate) struct GatewayConfigArgs {
    /// The connector's configuration file.
    #[arg(long, value_name = "FILE", required_unless_present = "config")]
    adapters: Option<PathBuf>,
    /// The gateway's own configuration: listeners, limits, connections (docs/configuration.md).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A Lightstreamer server's configuration file: its settings for diffs are honoured where --config
    /// says nothing about them; `check` says what of it is not read.
    #[arg(long, value_name = "FILE")]
    lightstreamer_conf: Option<PathBuf>,
    /// Refuse what connector 1.5.2 does not know instead of warning.
    #[arg(long)]
    strict: bool,
}

/// How to run.
#[derive(Debug, Args)]
pub(crate) struct GatewayRunArgs {
    #[command(flatten)]
    files: GatewayConfigArgs,
    /// Where clients connect [default: 0.0.0.0:8080]; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Where metrics and health are served [default: 127.0.0.1:8090].
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// Event loops [default: one per core].
    #[arg(long, value_name = "COUNT")]
    shards: Option<usize>,
    /// Write addresses and process id as JSON to this file once every connection is ready.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// Runs one gateway command.
pub(crate) fn run(command: GatewayCommand) -> Result<Exit, Failure> {
    match command {
        GatewayCommand::Run(args) => serve(&args),
        GatewayCommand::Check(args) => check::run(&args),
        GatewayCommand::Explain(args) => explain::run(&args),
    }
}

fn load(files: &GatewayConfigArgs, overrides: &CliOverrides) -> Result<GatewayConfig, Failure> {
    read(files, overrides).map_err(failure)
}

fn read(
    files: &GatewayConfigArgs,
    overrides: &CliOverrides,
) -> Result<GatewayConfig, GatewayError> {
    let options = ParseOptions {
        strict: files.strict,
    };
    let overrides = CliOverrides {
        lightstreamer_conf: files.lightstreamer_conf.clone(),
        ..overrides.clone()
    };
    GatewayConfig::load(
        files.adapters.as_deref(),
        files.config.as_deref(),
        &overrides,
        options,
    )
}

fn failure(error: GatewayError) -> Failure {
    Failure::new(exit(&error), error)
}

fn exit(error: &GatewayError) -> Exit {
    if error.is_config_error() {
        Exit::Usage
    } else {
        Exit::Instrument
    }
}

fn serve(args: &GatewayRunArgs) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let overrides = CliOverrides {
        listen: args.listen,
        admin: args.admin,
        shards: args.shards,
        ..CliOverrides::default()
    };
    let config = load(&args.files, &overrides)?;
    for note in &config.notes {
        match note.severity {
            Severity::Warning => tracing::warn!("{}: {}", note.at, note.text),
            Severity::Info => tracing::info!("{}: {}", note.at, note.text),
        }
    }
    // Without a certificate a closed terminal ends the gateway, as usual.
    let reload = match config.tls {
        Some(_) => signal::reload_flag().map_err(|error| Failure::new(Exit::Instrument, error))?,
        None => Arc::default(),
    };
    let descriptors = descriptors::raise_descriptor_limit();
    if config.limits.sessions as u64 + 100 > descriptors {
        let sessions = config.limits.sessions;
        tracing::info!(
            "descriptor limit {descriptors}: fewer than limits.sessions = {sessions} can connect"
        );
    }
    let admin_scheme = if config.admin_tls.is_some() {
        "https"
    } else {
        "http"
    };
    let gateway = Gateway::start(config).map_err(failure)?;
    let addresses = client_addresses(gateway.listen_address(), gateway.tls_address());
    let (admin, scheme) = (gateway.admin_address(), admin_scheme);
    tracing::info!("clients connect to {addresses}; metrics and health on {scheme}://{admin}");
    wait(&gateway, [&stop, &reload], args.ready_file.as_deref())?;
    tracing::info!("shutting down");
    Ok(exit::after_shutdown(&gateway.shut_down()))
}

/// Waits for the end, telling when the gateway becomes ready and why it does not. The certificate is
/// read again whenever the second flag is up.
fn wait(
    gateway: &Gateway,
    [stop, reload]: [&AtomicBool; 2],
    ready_file: Option<&Path>,
) -> Result<(), Failure> {
    let mut announced = false;
    let mut complained = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if !announced && gateway.ready() {
            announced = true;
            tracing::info!("ready");
            if let Some(path) = ready_file {
                write_ready_file(path, gateway)?;
            }
        }
        if reload.swap(false, Ordering::Relaxed) {
            gateway.reload_certificate();
        }
        if complained.elapsed() >= ERROR_LOG_INTERVAL {
            complained = Instant::now();
            for (connection, error) in gateway.troubles() {
                let error = error.unwrap_or_else(|| "waiting for the brokers".to_owned());
                tracing::warn!(%connection, "still not ready: {error}");
            }
        }
        std::thread::sleep(if announced { LOOK_LATER } else { LOOK });
    }
    Ok(())
}

/// The file appears whole or not at all: whoever waits for it may read it at once.
fn write_ready_file(path: &Path, gateway: &Gateway) -> Result<(), Failure> {
    let ready = serde_json::json!({
        "listen": gateway.listen_address().to_string(),
        "tls": gateway.tls_address().map(|address| address.to_string()),
        "admin": gateway.admin_address().to_string(),
        "pid": std::process::id(),
    });
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, ready.to_string())
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(|error| {
            let text = format!("--ready-file {}: {error}", path.display());
            Failure::new(Exit::Usage, anyhow::anyhow!(text))
        })
}
