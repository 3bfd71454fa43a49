//! `weir load`: single parts of a load test.

use clap::Subcommand;

use crate::cmd::{load_clients, load_clock, load_consume, load_floor, load_produce, load_relay};
use crate::exit::{Exit, Failure};

#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Write records to a topic on a fixed schedule
    ///
    /// Every record has a due time that does not depend on the broker's responses (open loop).
    Produce(Box<load_produce::ProduceArgs>),
    /// Run thousands of plain Kafka consumers in one thread
    ///
    /// Each consumer reads the whole topic, or a share of it with --group-members.
    Consume(load_consume::ConsumeArgs),
    /// Run the baseline server: one pre-encoded frame per record and subscribed socket
    Floor(load_floor::FloorArgs),
    /// Run the baseline proxy: copy bytes between sockets without decoding
    Relay(load_relay::RelayArgs),
    /// Run thousands of simulated gateway clients, each with one session and one item
    Clients(load_clients::ClientsArgs),
    /// Measure how far the clocks of two machines differ
    ///
    /// A latency between two machines is at most as exact as this difference is known.
    Clock(load_clock::ClockArgs),
}

pub(crate) fn run(command: LoadCommand) -> Result<Exit, Failure> {
    match command {
        LoadCommand::Produce(args) => load_produce::run(&args),
        LoadCommand::Consume(args) => load_consume::run(&args),
        LoadCommand::Floor(args) => load_floor::run(&args),
        LoadCommand::Relay(args) => load_relay::run(&args),
        LoadCommand::Clients(args) => load_clients::run(&args),
        LoadCommand::Clock(args) => load_clock::run(&args),
    }
}
