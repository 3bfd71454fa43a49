//! `weir proxy run|check`.

mod check;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use weir_proxy::{CliOverrides, Proxy, ProxyConfig, ProxyError};

use crate::descriptors;
use crate::exit::{self, Exit, Failure};
use crate::{huge_pages, signal};

/// How often the command looks at the stop flag and at the clusters.
const LOOK: Duration = Duration::from_millis(20);
/// The same once all of them have answered: every look costs what a few records cost.
const LOOK_LATER: Duration = Duration::from_millis(100);
/// How often it says that a cluster still does not answer.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What the proxy can do.
#[derive(Debug, Subcommand)]
pub(crate) enum ProxyCommand {
    /// Stand between Kafka clients and brokers until Ctrl-C or SIGTERM.
    ///
    /// Clients use the proxy's address as bootstrap server and are told of the proxy's own ports
    /// instead of the brokers': one port per broker, beginning behind the one they begin at.
    /// Whatever they send passes unopened, but for what a filter wants to see. Certificates are read
    /// again when their files change, and on SIGHUP.
    #[command(
        after_help = "Examples:\n  weir proxy run --upstream localhost:9092\n  \
        kafka-console-producer.sh --bootstrap-server localhost:9192 --topic LTest\n\n  \
        weir proxy run --config proxy.toml\n  \
        curl http://127.0.0.1:9190/health/ready\n  \
        curl http://127.0.0.1:9190/connections\n\n\
        docs/proxy.md describes the file and what passes how."
    )]
    Run(ProxyRunArgs),
    /// Read a configuration and say what it means, without connecting to anything.
    ///
    /// Ends with code 2 and the key, the value and a remedy if something cannot be used.
    #[command(after_help = "Example:\n  weir proxy check --config proxy.toml")]
    Check(check::ProxyCheckArgs),
}

/// Where the configuration comes from.
#[derive(Debug, Args)]
pub(crate) struct ProxyConfigArgs {
    /// Virtual clusters, limits, TLS, filters (docs/proxy.md).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Brokers to begin with, separated by commas; enough for one cluster without a file.
    #[arg(long, value_name = "HOST:PORT")]
    upstream: Option<String>,
    /// Where clients begin [default: 127.0.0.1:9192]; port 0 takes free ones for everything.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Host that clients are told [default: the address of --listen].
    #[arg(long, value_name = "HOST")]
    advertised_host: Option<String>,
    /// Where metrics and health are served [default: 127.0.0.1:9190].
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// Event loops [default: one per core].
    #[arg(long, value_name = "COUNT")]
    loops: Option<usize>,
}

/// How to run.
#[derive(Debug, Args)]
pub(crate) struct ProxyRunArgs {
    #[command(flatten)]
    from: ProxyConfigArgs,
    /// Write addresses and process id as JSON to this file once every cluster answers.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// Runs one proxy command.
pub(crate) fn run(command: ProxyCommand) -> Result<Exit, Failure> {
    match command {
        ProxyCommand::Run(args) => serve(&args),
        ProxyCommand::Check(args) => check::run(&args),
    }
}

fn load(from: &ProxyConfigArgs) -> Result<ProxyConfig, Failure> {
    let overrides = CliOverrides {
        upstream: from.upstream.clone(),
        listen: from.listen,
        advertised_host: from.advertised_host.clone(),
        admin: from.admin,
        loops: from.loops,
    };
    ProxyConfig::load(from.config.as_deref(), &overrides).map_err(failure)
}

fn failure(error: ProxyError) -> Failure {
    let exit = if error.is_config_error() {
        Exit::Usage
    } else {
        Exit::Instrument
    };
    Failure::new(exit, error)
}

fn serve(args: &ProxyRunArgs) -> Result<Exit, Failure> {
    huge_pages::disable_huge_pages();
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let config = load(&args.from)?;
    // Without certificates a closed terminal ends the proxy, as usual.
    let reload = match config.tls_files.is_empty() {
        false => signal::reload_flag().map_err(|error| Failure::new(Exit::Instrument, error))?,
        true => Arc::default(),
    };
    let descriptors = descriptors::raise_descriptor_limit();
    let wanted = config.limits.connections;
    if wanted as u64 * 2 + 100 > descriptors {
        tracing::info!(
            "descriptor limit {descriptors}: fewer than limits.connections = {wanted} can be open"
        );
    }
    let scheme = if config.admin_tls.is_some() {
        "https"
    } else {
        "http"
    };
    let proxy = Proxy::start(config).map_err(failure)?;
    for (cluster, address) in proxy.addresses() {
        tracing::info!(cluster, "clients begin at {address}");
    }
    let admin = proxy.admin_address();
    tracing::info!("metrics, health and connections on {scheme}://{admin}");
    wait(&proxy, [&stop, &reload], args.ready_file.as_deref())?;
    tracing::info!("shutting down");
    Ok(exit::after_shutdown(&proxy.shut_down()))
}

/// Waits for the end, telling when the clusters answer and why they do not. Certificates are read again
/// whenever the second flag is up.
fn wait(
    proxy: &Proxy,
    [stop, reload]: [&AtomicBool; 2],
    ready_file: Option<&Path>,
) -> Result<(), Failure> {
    let mut announced = false;
    let mut complained = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if !announced && proxy.ready() {
            announced = true;
            tracing::info!("ready");
            if let Some(path) = ready_file {
                write_ready_file(path, proxy)?;
            }
        }
        if reload.swap(false, Ordering::Relaxed) {
            proxy.reload_certificates();
        }
        if complained.elapsed() >= ERROR_LOG_INTERVAL {
            complained = Instant::now();
            for (cluster, error) in proxy.troubles() {
                let error = error.unwrap_or_else(|| "waiting for the brokers".to_owned());
                tracing::warn!(cluster, "does not answer: {error}");
            }
        }
        std::thread::sleep(if announced { LOOK_LATER } else { LOOK });
    }
    Ok(())
}

/// The file appears whole or not at all: whoever waits for it may read it at once.
fn write_ready_file(path: &Path, proxy: &Proxy) -> Result<(), Failure> {
    let clusters: serde_json::Map<_, _> = proxy
        .addresses()
        .map(|(name, address)| (name.to_owned(), address.to_string().into()))
        .collect();
    let first = proxy.addresses().next().map(|(_, address)| address);
    let ready = serde_json::json!({
        "listen": first.map(|address| address.to_string()),
        "clusters": clusters,
        "admin": proxy.admin_address().to_string(),
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
