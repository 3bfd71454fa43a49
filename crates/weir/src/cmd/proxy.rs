//! `weir proxy`: the commands `run` and `check`.

mod check;
mod config;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use weir_proxy::Proxy;

use self::config::{ProxyConfigArgs, failure, load};
use crate::descriptors;
use crate::exit::{self, Exit, Failure};
use crate::{huge_pages, signal};

/// Interval at which the stop flag and the clusters are checked before the proxy is ready.
const STARTUP_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The same interval afterwards. Each check costs as much as a few records.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which errors of clusters that are not reachable are logged.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Commands of `weir proxy`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProxyCommand {
    /// Run the proxy until Ctrl-C or SIGTERM
    ///
    /// Clients use the address of the proxy as bootstrap server. The proxy advertises its own ports
    /// instead of the broker addresses: one port per broker, starting after the bootstrap port.
    /// Requests and responses are forwarded without decoding, except for records that a filter
    /// processes. Certificates are reloaded when their files change, and on SIGHUP.
    #[command(
        after_help = "Examples:\n  weir proxy run --upstream localhost:9092\n  \
        kafka-console-producer.sh --bootstrap-server localhost:9192 --topic LTest\n\n  \
        weir proxy run --config proxy.toml\n  \
        curl http://127.0.0.1:9190/health/ready\n  \
        curl http://127.0.0.1:9190/connections\n\n\
        See docs/proxy.md for the configuration file and the supported protocol."
    )]
    Run(ProxyRunArgs),
    /// Check a configuration without connecting to anything
    ///
    /// An invalid configuration ends with exit code 2 and an error that names the key, the value
    /// and a remedy.
    #[command(after_help = "Example:\n  weir proxy check --config proxy.toml")]
    Check(check::ProxyCheckArgs),
}

/// Arguments of `weir proxy run`.
#[derive(Debug, Args)]
pub(crate) struct ProxyRunArgs {
    #[command(flatten)]
    config: ProxyConfigArgs,
    /// File written when the proxy is ready, with addresses and process id as JSON
    ///
    /// The proxy is ready when a broker of every virtual cluster responds.
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

fn serve(args: &ProxyRunArgs) -> Result<Exit, Failure> {
    huge_pages::disable_huge_pages();
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let config = load(&args.config)?;
    // Without certificates, SIGHUP of a closed terminal ends the proxy as usual.
    let reload = match config.tls_files.is_empty() {
        false => signal::reload_flag().map_err(|error| Failure::new(Exit::Instrument, error))?,
        true => Arc::default(),
    };
    let descriptors = descriptors::raise_descriptor_limit();
    let connections = config.limits.connections;
    // Every client connection needs a second one to a broker.
    if connections as u64 * 2 + 100 > descriptors {
        tracing::info!(
            limit = descriptors,
            connections,
            "file descriptor limit is too low for limits.connections"
        );
    }
    let scheme = if config.admin_tls.is_some() {
        "https"
    } else {
        "http"
    };
    let proxy = Proxy::start(config).map_err(failure)?;
    for (cluster, address) in proxy.addresses() {
        tracing::info!(cluster, bootstrap = %address, "listening for clients");
    }
    let admin = proxy.admin_address();
    tracing::info!(admin = %format_args!("{scheme}://{admin}"), "proxy started");
    wait(&proxy, [&stop, &reload], args.ready_file.as_deref())?;
    tracing::info!("shutting down");
    Ok(exit::after_shutdown(&proxy.shut_down()))
}

/// Waits until `stop` is set. Logs when all clusters respond, or the errors that prevent it.
///
/// Reloads the certificates whenever `reload` is set.
fn wait(
    proxy: &Proxy,
    [stop, reload]: [&AtomicBool; 2],
    ready_file: Option<&Path>,
) -> Result<(), Failure> {
    let mut was_ready = false;
    let mut errors_logged = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if !was_ready && proxy.is_ready() {
            was_ready = true;
            tracing::info!("ready");
            if let Some(path) = ready_file {
                write_ready_file(path, proxy)?;
            }
        }
        if reload.swap(false, Ordering::Relaxed) {
            proxy.reload_certificates();
        }
        if errors_logged.elapsed() >= ERROR_LOG_INTERVAL {
            errors_logged = Instant::now();
            for (cluster, error) in proxy.unready_clusters() {
                let error = error.unwrap_or_else(|| "waiting for the brokers".to_owned());
                tracing::warn!(cluster, %error, "cluster does not respond");
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
            let text = format!(
                "--ready-file \"{}\": cannot write file: {error}",
                path.display()
            );
            Failure::new(Exit::Usage, anyhow::anyhow!(text))
        })
}
