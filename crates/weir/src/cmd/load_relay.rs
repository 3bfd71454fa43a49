//! `weir load relay`: the baseline proxy.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use weir_load::relay::Relay;

use crate::cmd::summary_file::SummaryArgs;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

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
    #[command(flatten)]
    summary: SummaryArgs,
}

pub(crate) fn run(args: &RelayArgs) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let name = &args.upstream;
    let found = name.to_socket_addrs().ok().and_then(|mut all| all.next());
    let upstream = found.with_context(|| {
        format!("--upstream \"{name}\": is not a reachable HOST:PORT; use the address of a broker")
    });
    let upstream = upstream.or_exit(Exit::Usage)?;
    let relay = Relay::open(args.listen, upstream)
        .with_context(|| format!("cannot listen on {} (--listen)", args.listen))
        .or_exit(Exit::Usage)?;
    let address = relay.address().or_exit(Exit::Tool)?;
    if args.json {
        let (listen, pid) = (address.to_string(), std::process::id());
        println!(
            "{}",
            json!({ "event": "ready", "listen": listen, "pid": pid })
        );
    } else {
        println!("relay to {upstream} on {address}");
    }
    let counters = relay.counters();
    relay.run(&stop).or_exit(Exit::Tool)?;
    let summary = counters.summary();
    args.summary.write(&summary)?;
    if args.json {
        println!("{}", json!({ "event": "end", "summary": summary }));
    } else {
        println!("connections  {}", summary.connections);
        println!("to brokers   {} bytes", summary.upstream_bytes);
        println!("to clients   {} bytes", summary.downstream_bytes);
    }
    Ok(Exit::Success)
}
