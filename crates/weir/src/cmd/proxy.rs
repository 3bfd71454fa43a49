//! `weir proxy`: the commands `run`, `check`, `connections`, `reload`, `explain` and `user`.

mod admin_client;
mod check;
mod config;
mod connections;
mod explain;
mod reload;
mod take_over;
mod user;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use weir_proxy::Proxy;

use self::config::{ProxyConfigArgs, load};
use self::take_over::Inheritance;
use super::server::{self, Server, Signals};
use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum ProxyCommand {
    /// Run the proxy until Ctrl-C or SIGTERM
    ///
    /// Clients use the address of the proxy as bootstrap server. The proxy advertises its own ports
    /// instead of the broker addresses: one port per broker, starting after the bootstrap port.
    /// With [cluster.sni], all brokers have one port, and each has a server name.
    /// Requests and responses are forwarded without decoding, except for records that a filter
    /// processes. Certificates are reloaded when their files change. The whole configuration is
    /// reloaded on SIGHUP; an invalid one is logged and not used.
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
    /// List the open connections of a running proxy
    ///
    /// Asks its admin port. Requests, bytes, frames in flight and buffered, age and idle time of
    /// each connection; with `--watch` live.
    #[command(after_help = "Examples:\n  weir proxy connections --sort idle\n  \
        weir proxy connections --watch --sort requests\n  \
        weir proxy connections --json --limit 0 | jq '.connections[].principal'")]
    Connections(connections::ProxyConnectionsArgs),
    /// Reload the configuration of a running proxy
    ///
    /// Asks its admin port. The proxy reads its own file and applies all of it or nothing; the exit
    /// code is 2 if it cannot be used. With `--check` it only reports which clusters would change
    /// and how many connections would end.
    #[command(after_help = "Examples:\n  weir proxy reload --check\n  weir proxy reload")]
    Reload(reload::ProxyReloadArgs),
    /// Show which of Kafka's ACLs decides about an operation
    ///
    /// Follows the rules of Kafka's own authorizer. The exit code is 1 if the operation is denied.
    #[command(after_help = "Example:\n  \
        kafka-acls.sh --bootstrap-server localhost:9092 --list > acls.txt\n  \
        weir proxy explain --acls acls.txt --principal User:alice \\\n    \
        --operation read --topic orders")]
    Explain(explain::ProxyExplainArgs),
    /// Manage the file with the users of a proxy
    #[command(
        subcommand,
        after_help = "Example:\n  weir proxy user set alice --file users < password.txt"
    )]
    User(user::UserCommand),
}

#[derive(Debug, Args)]
pub(crate) struct ProxyRunArgs {
    #[command(flatten)]
    config: ProxyConfigArgs,
    /// File written when the proxy is ready, with addresses and process id as JSON
    ///
    /// The proxy is ready when a broker of every virtual cluster responds.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Take over from the proxy that waits at this Unix socket, then wait there for a successor
    ///
    /// For an upgrade without refused connections: the new process gets the listeners of the
    /// running one, which shuts down as soon as the new one is ready. Without a running proxy it
    /// just starts. Only processes of the same user can take over.
    #[arg(long, value_name = "SOCKET")]
    take_over: Option<PathBuf>,
}

pub(crate) fn run(command: ProxyCommand) -> Result<Exit, Failure> {
    match command {
        ProxyCommand::Run(args) => serve(&args),
        ProxyCommand::Check(args) => check::run(&args),
        ProxyCommand::Connections(args) => connections::run(&args),
        ProxyCommand::Reload(args) => reload::run(&args),
        ProxyCommand::Explain(args) => explain::run(&args),
        ProxyCommand::User(command) => user::run(&command),
    }
}

fn serve(args: &ProxyRunArgs) -> Result<Exit, Failure> {
    server::disable_huge_pages();
    let mut signals = Signals::register()?;
    let config = load(&args.config)?;
    let has_files = config.origin.file().is_some() || !config.tls_files.is_empty();
    signals.reload_if(has_files)?;
    let descriptors = server::raise_descriptor_limit();
    let connections = config.limits.connections;
    // Every client connection needs a second one to a broker.
    if connections as u64 * 2 + 100 > descriptors {
        tracing::info!(
            limit = descriptors,
            connections,
            "file descriptor limit is too low for limits.connections"
        );
    }
    let scheme = config.admin.scheme();
    let event_loops = config.event_loops;
    let inheritance = match &args.take_over {
        Some(path) => Some((Inheritance::take(path, event_loops)?, path)),
        None => None,
    };
    let proxy = match &inheritance {
        Some((inheritance, _)) => Proxy::start_with(config, Arc::clone(&inheritance.source))?,
        None => Proxy::start(config)?,
    };
    for (cluster, address) in proxy.addresses() {
        tracing::info!(cluster, bootstrap = %address, "listening for clients");
    }
    let admin = proxy.admin_address();
    tracing::info!(admin = %format_args!("{scheme}://{admin}"), "proxy started");
    let ready_file = args.ready_file.as_deref();
    match inheritance {
        Some((inheritance, path)) => {
            let stopper = signals.stopper()?;
            let server = inheritance.into_server(proxy, event_loops, path.clone(), stopper);
            server::run(server, &signals, ready_file)
        }
        None => server::run(proxy, &signals, ready_file),
    }
}

impl Server for Proxy {
    fn is_ready(&self) -> bool {
        Self::is_ready(self)
    }

    fn log_unready(&self) {
        for (cluster, error) in self.unready_clusters() {
            let error = error.unwrap_or_else(|| "waiting for the brokers".to_owned());
            tracing::warn!(cluster, %error, "cluster does not respond, retrying");
        }
    }

    fn reload_files(&self) {
        Self::reload_certificates(self);
        // Logs its error.
        let _ = self.reload();
    }

    fn ready_file(&self) -> serde_json::Value {
        let addresses = self.addresses();
        let clusters: serde_json::Map<_, _> = addresses
            .map(|(name, address)| (name, address.to_string().into()))
            .collect();
        let first = self.addresses().next().map(|(_, address)| address);
        serde_json::json!({
            "listen": first.map(|address| address.to_string()),
            "clusters": clusters,
            "admin": self.admin_address().to_string(),
        })
    }

    fn shut_down(self) -> Vec<String> {
        Self::shut_down(self)
    }
}
