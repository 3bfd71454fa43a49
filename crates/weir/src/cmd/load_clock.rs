//! `weir load clock`: how far the clocks of two machines differ.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use weir_engine::clock::udp::{ClockEcho, ClockKey, ClockMeter};
use weir_engine::clock::{ClockBound, ClockError, LEAD};
use weir_load::clock::{nanos, wall_clock_unix_ns};
use weir_load::units::parse_duration;

use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

#[derive(Debug, Args)]
#[command(
    after_help = "Example, on the machine of the clients and on that of the producers:\n  \
                  weir load clock --listen 0.0.0.0:7071\n  \
                  weir load clock --peer 10.0.0.21:7071 --duration 1m"
)]
#[group(skip)]
pub(crate) struct ClockArgs {
    /// UDP address to listen on until Ctrl-C; port 0 selects a free port, which is printed
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        required_unless_present = "peer",
        conflicts_with = "peer"
    )]
    listen: Option<SocketAddr>,
    /// UDP address of the machine that listens
    #[arg(long, value_name = "HOST:PORT")]
    peer: Option<String>,
    /// Time span of the bound
    ///
    /// The measurement takes 16 seconds longer: 64 exchanges before and after.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    duration: Duration,
    /// Print the address or the result as a JSON line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ClockArgs) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    match (&args.peer, args.listen) {
        (Some(peer), _) => measure(args, peer, &stop),
        // Invariant: one of the two is required.
        (None, listen) => answer(args, listen.unwrap_or(ANY), &stop),
    }
}

fn answer(args: &ClockArgs, listen: SocketAddr, stop: &AtomicBool) -> Result<Exit, Failure> {
    let echo = ClockEcho::start(listen, KEY, wall_clock_unix_ns)
        .with_context(|| format!("cannot listen on {listen} (--listen)"))
        .or_exit(Exit::Usage)?;
    let address = echo.address().to_string();
    match args.json {
        true => println!("{}", json!({ "event": "ready", "listen": address })),
        false => println!("clock on UDP {address}"),
    }
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
    }
    Ok(Exit::Success)
}

fn measure(args: &ClockArgs, peer: &str, stop: &AtomicBool) -> Result<Exit, Failure> {
    let found = peer.to_socket_addrs().ok().and_then(|mut all| all.next());
    let address = found.with_context(|| format!("--peer \"{peer}\": is not a known HOST:PORT"));
    let from_ns = wall_clock_unix_ns() + nanos(LEAD);
    let until_ns = from_ns + nanos(args.duration);
    let meter = ClockMeter::start(address.or_exit(Exit::Usage)?, KEY, wall_clock_unix_ns);
    let meter = meter.or_exit(Exit::Tool)?;
    let end_ns = until_ns + nanos(LEAD);
    while wall_clock_unix_ns() < end_ns {
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::Interrupted);
        }
        thread::sleep(POLL_INTERVAL);
    }
    let bound = meter.history().bound(from_ns, until_ns);
    let bound = bound.map_err(|error| {
        let exit = match error {
            ClockError::TooFew(_) => Exit::Unreachable,
            ClockError::Stepped(_) => Exit::Tool,
        };
        let error = anyhow::Error::new(error).context(format!("clock of {peer}"));
        Failure::new(exit, error)
    })?;
    print(args, &bound);
    Ok(Exit::Success)
}

fn print(args: &ClockArgs, bound: &ClockBound) {
    if args.json {
        println!(
            "{}",
            json!({
                "offset_ns": bound.offset_ns,
                "error_ns": bound.error_ns,
                "drift_ns_per_s": bound.drift_ns_per_s,
            })
        );
        return;
    }
    println!("offset  {:.3} ms", bound.offset_ns as f64 / 1e6);
    println!("bound   ± {:.1} us", bound.error_ns as f64 / 1e3);
    println!("drift   {:.2} ppm", bound.drift_ns_per_s / 1e3);
    let p50_us = bound.error_ns as f64 / 1e3 * 10.0;
    println!("One-way latencies with a median below {p50_us:.0} us allow no verdict.");
}

/// Key of all measurements: any peer that reaches the port may ask for the time.
const KEY: ClockKey = [0; 16];
const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
