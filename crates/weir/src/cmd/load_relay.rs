//! `weir load relay`: the baseline proxy.

use std::net::{SocketAddr, ToSocketAddrs};

use clap::Args;
use weir_load::relay::Relay;

use crate::exit::{Exit, Failure};
use crate::signal;

/// Arguments of `weir load relay`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
                  weir load relay --listen 127.0.0.1:9292 --upstream 127.0.0.1:9093\n\n\
                  Clients connect to the addresses that brokers advertise. Give the broker a \
                  listener that advertises the address of the relay; otherwise clients bypass \
                  the relay.")]
pub(crate) struct RelayArgs {
    /// Address to listen on; port 0 selects a free port, which is printed
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Address of the broker
    #[arg(long, value_name = "HOST:PORT")]
    upstream: String,
    /// Print the address and the result as JSON lines
    #[arg(long)]
    json: bool,
}

/// Runs the relay until Ctrl-C or SIGTERM.
pub(crate) fn run(args: &RelayArgs) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let upstream = args
        .upstream
        .to_socket_addrs()
        .ok()
        .and_then(|mut all| all.next());
    let upstream = upstream.ok_or_else(|| {
        let text = format!(
            "--upstream \"{}\": is not a reachable HOST:PORT; use the address of a broker",
            args.upstream
        );
        Failure::new(Exit::Usage, anyhow::anyhow!(text))
    })?;
    let relay = Relay::open(args.listen, upstream).map_err(|error| {
        let text = format!("cannot listen on {} (--listen): {error}", args.listen);
        Failure::new(Exit::Usage, anyhow::anyhow!(text))
    })?;
    let failed = |error| Failure::new(Exit::Instrument, anyhow::Error::new(error));
    let address = relay.address().map_err(failed)?;
    if args.json {
        let ready = serde_json::json!({
            "event": "ready",
            "listen": address.to_string(),
            "pid": std::process::id(),
        });
        println!("{ready}");
    } else {
        println!("relay to {upstream} on {address}");
    }
    let counters = relay.counters();
    relay.run(&stop).map_err(failed)?;
    let summary = counters.summary();
    if args.json {
        let text = serde_json::json!({ "event": "end", "summary": summary });
        println!("{text}");
    } else {
        println!("connections  {}", summary.connections);
        println!("to brokers   {} bytes", summary.upstream_bytes);
        println!("to clients   {} bytes", summary.downstream_bytes);
    }
    Ok(Exit::Success)
}
