//! `weir gateway size`: estimates cores, memory and bandwidth of gateways from measured costs.

use clap::Args;
use weir_load::units::parse_count;

use crate::exit::{Exit, Failure};

pub(super) const AFTER_HELP: &str = "\
Example, 20,000 clients over TLS with two updates of 500 bytes a second each:
  weir gateway size --clients 20k --updates 40k --bytes 500 --tls

The costs are those of docs/sizing.md, measured on 2 cores. `weir bench run keyed` measures \
those of your hardware.";

#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// Clients of all gateways together
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    clients: u64,
    /// Updates per second to all clients together
    #[arg(long, value_name = "UPDATES_PER_S", value_parser = parse_count)]
    updates: u64,
    /// Bytes of the values of an update
    #[arg(long, value_name = "BYTES", value_parser = parse_count, default_value = "1000")]
    bytes: u64,
    /// Clients connect with TLS
    #[arg(long)]
    tls: bool,
    /// Gateways that share the clients, one of which may be down
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000),
          default_value_t = 2)]
    gateways: u64,
}

// Measured costs, as in docs/sizing.md.
const CPU_US_PER_UPDATE: f64 = 10.6;
const CPU_TLS_FACTOR: f64 = 1.23;
const MEMORY_KB_PER_CLIENT: f64 = 5.2;
const MEMORY_TLS_KB_PER_CLIENT: f64 = 3.8;
const OVERHEAD_BYTES_PER_UPDATE: f64 = 67.0;
/// Share of a core that is used in the long run, so that bursts do not wait.
const CORE_SHARE: f64 = 0.5;
/// Memory of a gateway without clients, with the default queues of its Kafka client.
const MEMORY_BASE_MB: f64 = 200.0;
/// Share of clients with a full queue (`limits.queue_bytes`, 1 MiB).
const LAGGING_SHARE: f64 = 0.01;
const QUEUE_MB: f64 = 1.05;

/// Estimate for one gateway, if the others are one fewer than planned.
#[derive(Debug, PartialEq)]
struct Estimate {
    clients: f64,
    cpu_cores: f64,
    cores: f64,
    memory_mb: f64,
    mbit_per_s: f64,
}

impl Estimate {
    fn of(args: &SizeArgs) -> Self {
        let gateways = args.gateways.saturating_sub(1).max(1) as f64;
        let (clients, updates) = (args.clients as f64, args.updates as f64);
        let (cpu_factor, tls_kb) = match args.tls {
            true => (CPU_TLS_FACTOR, MEMORY_TLS_KB_PER_CLIENT),
            false => (1.0, 0.0),
        };
        let cpu_cores = updates * CPU_US_PER_UPDATE * cpu_factor / 1e6 / gateways;
        let clients = clients / gateways;
        let per_client_mb = (MEMORY_KB_PER_CLIENT + tls_kb) / 1e3 + LAGGING_SHARE * QUEUE_MB;
        let bytes = args.bytes as f64 + OVERHEAD_BYTES_PER_UPDATE;
        Self {
            clients,
            cpu_cores,
            cores: (cpu_cores / CORE_SHARE).ceil().max(1.0),
            memory_mb: MEMORY_BASE_MB + clients * per_client_mb,
            mbit_per_s: updates / gateways * bytes * 8.0 / 1e6,
        }
    }
}

pub(super) fn run(args: &SizeArgs) -> Result<Exit, Failure> {
    let one = Estimate::of(args);
    let left = args.gateways.saturating_sub(1).max(1);
    println!(
        "One of {left} gateways that serve all clients ({} in all):",
        args.gateways
    );
    println!("  clients    {:.0}", one.clients.ceil());
    println!(
        "  CPU        {:.2} of {:.0} cores",
        one.cpu_cores, one.cores
    );
    println!("  memory     {:.0} MB", one.memory_mb.ceil());
    println!(
        "  bandwidth  {:.0} Mbit/s to clients",
        one.mbit_per_s.ceil()
    );
    println!(
        "  files      {:.0} descriptors",
        one.clients.ceil() + 1000.0
    );
    println!("Reading and mapping Kafka records is extra, see docs/sizing.md.");
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/sizing.md");

    /// `bench/figures` compares the page with stored runs.
    #[test]
    fn costs_match_sizing_page() {
        for (name, value) in [
            ("CPU per update", format!("{CPU_US_PER_UPDATE} us")),
            ("CPU per update over TLS", format!("{CPU_TLS_FACTOR} x")),
            ("memory per client", format!("{MEMORY_KB_PER_CLIENT} kB")),
            (
                "memory per client over TLS",
                format!("{MEMORY_TLS_KB_PER_CLIENT} kB more"),
            ),
            (
                "bytes per update, in addition to its values",
                format!("{OVERHEAD_BYTES_PER_UPDATE}"),
            ),
        ] {
            let row = format!("| {name} | {value} |");
            assert!(PAGE.contains(&row), "{row}");
        }
    }

    #[test]
    fn one_gateway_less_serves_all_clients() {
        let mut args = SizeArgs {
            clients: 30_000,
            updates: 100_000,
            bytes: 933,
            tls: false,
            gateways: 3,
        };
        let plain = Estimate::of(&args);
        assert_eq!((plain.clients, plain.cores), (15_000.0, 2.0));
        assert!((plain.cpu_cores - 0.53).abs() < 1e-9, "{plain:?}");
        assert!((plain.mbit_per_s - 400.0).abs() < 1e-9, "{plain:?}");
        args.tls = true;
        let tls = Estimate::of(&args);
        assert!((tls.cpu_cores / plain.cpu_cores - CPU_TLS_FACTOR).abs() < 1e-9);
        let more_mb = tls.memory_mb - plain.memory_mb;
        assert!((more_mb - 57.0).abs() < 1e-6, "{more_mb}");
        args.gateways = 1;
        assert_eq!(Estimate::of(&args).clients, 30_000.0);
    }
}
