//! `weir gateway`: the commands `run`, `check` and `explain`.

mod check;
mod config;
mod explain;
mod explain_text;
mod explanation;
mod record_file;
mod table;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use weir_gateway::config::CliOverrides;
use weir_gateway::{Gateway, client_addresses};
use weir_mapping::Severity;

use self::config::{GatewayConfigArgs, failure, load};
use crate::descriptors;
use crate::exit::{self, Exit, Failure};
use crate::signal;

/// Interval at which the stop flag and the Kafka connections are checked before the gateway is
/// ready.
const STARTUP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The same interval afterwards. Each check costs as much as a few deliveries.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which errors of connections that are not ready are logged.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Commands of `weir gateway`.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run the gateway until Ctrl-C or SIGTERM
    ///
    /// Clients connect with any Lightstreamer SDK over WebSocket. The gateway checks their sessions
    /// and subscriptions against the configuration. Metrics and health are on the admin port.
    /// SIGHUP reloads the certificate and its key.
    #[command(
        after_help = "Example:\n  weir gateway run --adapters adapters.xml\n  \
        curl http://127.0.0.1:8090/health/ready"
    )]
    Run(GatewayRunArgs),
    /// Check a configuration without connecting to anything
    ///
    /// Lists every parameter of every connection as honoured, ignored (with the reason) or refused
    /// (with a remedy). The exit code is 2 if a parameter is refused.
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
}

/// Arguments of `weir gateway run`.
#[derive(Debug, Args)]
pub(crate) struct GatewayRunArgs {
    #[command(flatten)]
    files: GatewayConfigArgs,
    /// Client address [default: 0.0.0.0:8080]; port 0 selects a free port
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

/// Runs one gateway command.
pub(crate) fn run(command: GatewayCommand) -> Result<Exit, Failure> {
    match command {
        GatewayCommand::Run(args) => serve(&args),
        GatewayCommand::Check(args) => check::run(&args),
        GatewayCommand::Explain(args) => explain::run(&args),
    }
}

fn serve(args: &GatewayRunArgs) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let overrides = CliOverrides {
        listen: args.listen,
        admin: args.admin,
        event_loops: args.event_loops,
        ..CliOverrides::default()
    };
    let config = load(&args.files, &overrides)?;
    for note in &config.notes {
        match note.severity {
            Severity::Warning => tracing::warn!("{}: {}", note.at, note.text),
            Severity::Info => tracing::info!("{}: {}", note.at, note.text),
        }
    }
    // Without a certificate, SIGHUP of a closed terminal ends the gateway as usual.
    let reload = match config.tls {
        Some(_) => signal::reload_flag().map_err(|error| Failure::new(Exit::Instrument, error))?,
        None => Arc::default(),
    };
    let descriptors = descriptors::raise_descriptor_limit();
    if config.limits.sessions as u64 + 100 > descriptors {
        tracing::info!(
            limit = descriptors,
            sessions = config.limits.sessions,
            "file descriptor limit is below limits.sessions"
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
    tracing::info!(%addresses, admin = %format_args!("{scheme}://{admin}"), "gateway started");
    wait(&gateway, [&stop, &reload], args.ready_file.as_deref())?;
    tracing::info!("shutting down");
    Ok(exit::after_shutdown(&gateway.shut_down()))
}

/// Waits until `stop` is set. Logs when the gateway becomes ready, or the errors that prevent it.
///
/// Reloads the certificate whenever `reload` is set.
fn wait(
    gateway: &Gateway,
    [stop, reload]: [&AtomicBool; 2],
    ready_file: Option<&Path>,
) -> Result<(), Failure> {
    let mut was_ready = false;
    let mut errors_logged = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if !was_ready && gateway.ready() {
            was_ready = true;
            tracing::info!("ready");
            if let Some(path) = ready_file {
                write_ready_file(path, gateway)?;
            }
        }
        if reload.swap(false, Ordering::Relaxed) {
            gateway.reload_certificate();
        }
        if errors_logged.elapsed() >= ERROR_LOG_INTERVAL {
            errors_logged = Instant::now();
            for (connection, error) in gateway.unready_connections() {
                let error = error.unwrap_or_else(|| "waiting for the brokers".to_owned());
                tracing::warn!(%connection, %error, "Kafka connection not ready");
            }
        }
        std::thread::sleep(if was_ready {
            POLL_INTERVAL
        } else {
            STARTUP_POLL_INTERVAL
        });
    }
    Ok(())
}

/// Writes the ready file atomically, so that a process that waits for it can read it immediately.
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
            let text = format!(
                "--ready-file \"{}\": cannot write file: {error}",
                path.display()
            );
            Failure::new(Exit::Usage, anyhow::anyhow!(text))
        })
}
