//! `weir load`: one part of a load test at a time.

use clap::Subcommand;

use crate::cmd::{load_clients, load_consume, load_floor, load_produce, load_relay};
use crate::exit::{Exit, Failure};

/// The parts of a load test.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Records into a topic, each at its due time whatever the broker does.
    Produce(Box<load_produce::ProduceArgs>),
    /// Thousands of plain Kafka consumers in one thread, each reading the whole topic.
    Consume(load_consume::ConsumeArgs),
    /// The least a server must do: one ready-made frame to every socket of a record's key.
    Floor(load_floor::FloorArgs),
    /// The least a proxy must do: bytes copied between sockets, not looked at.
    Relay(load_relay::RelayArgs),
    /// Thousands of simulated clients of a gateway, each with one session and one item.
    Clients(load_clients::ClientsArgs),
}

/// Runs one part.
pub(crate) fn run(command: LoadCommand) -> Result<Exit, Failure> {
    match command {
        LoadCommand::Produce(args) => load_produce::run(&args),
        LoadCommand::Consume(args) => load_consume::run(&args),
        LoadCommand::Floor(args) => load_floor::run(&args),
        LoadCommand::Relay(args) => load_relay::run(&args),
        LoadCommand::Clients(args) => load_clients::run(&args),
    }
}
