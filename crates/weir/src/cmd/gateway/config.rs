//! The configuration of the gateway commands: arguments, loading and errors.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_gateway::config::CliOverrides;
use weir_gateway::{ClientProperties, GatewayConfig, GatewayError};
use weir_kafka::ReaderChoice;
use weir_load::kafka::{KafkaArgs, KafkaPropertyArgs};
use weir_mapping::{Location, ParseOptions};

#[derive(Debug, Args)]
pub(super) struct GatewayConfigArgs {
    /// Configuration file of the connector (adapters.xml)
    #[arg(long, value_name = "FILE")]
    pub(super) adapters: Option<PathBuf>,
    /// Configuration file of the gateway (gateway.toml, see docs/configuration.md)
    ///
    /// Contains listeners, limits and connections.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Configuration file of a Lightstreamer server, for its diff settings
    ///
    /// The settings apply unless --config sets them. `weir gateway check` lists the elements that
    /// are not read.
    #[arg(long, value_name = "FILE")]
    lightstreamer_conf: Option<PathBuf>,
    /// Reject parameters unknown to connector 1.5.2 instead of warning
    #[arg(long)]
    pub(super) strict: bool,
    /// Client that reads from Kafka [default: auto]
    ///
    /// `auto` is Weir's own client (`lean`), and librdkafka for connections with a Kerberos login,
    /// or with properties or cipher suites that only librdkafka has.
    #[arg(long, value_name = "NAME", value_enum)]
    kafka_reader: Option<ReaderArg>,
    #[command(flatten)]
    kafka: KafkaPropertyArgs,
}

impl GatewayConfigArgs {
    /// Returns the client properties with other servers.
    pub(super) fn kafka_at(&self, bootstrap: Option<String>) -> KafkaArgs {
        KafkaArgs {
            bootstrap,
            client: self.kafka.clone(),
        }
    }
}

/// Value of `--kafka-reader`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReaderArg {
    Auto,
    Librdkafka,
    Lean,
}

impl From<ReaderArg> for ReaderChoice {
    fn from(argument: ReaderArg) -> Self {
        match argument {
            ReaderArg::Auto => Self::Auto,
            ReaderArg::Librdkafka => Self::Librdkafka,
            ReaderArg::Lean => Self::Lean,
        }
    }
}

pub(super) fn load(
    files: &GatewayConfigArgs,
    overrides: &CliOverrides,
) -> Result<GatewayConfig, GatewayError> {
    let is_given = [&files.adapters, &files.config]
        .iter()
        .any(|file| file.is_some());
    if !is_given && overrides.generated.is_none() {
        let text = "no configuration: pass --adapters FILE or --config FILE; `weir gateway run \
                    --topic TOPIC` needs none, `weir gateway init` writes one";
        return Err(invalid(text.to_owned()));
    }
    let kafka = files.kafka.read();
    let mut kafka = kafka.map_err(|error| invalid(error.to_string()))?;
    if kafka.take_servers().is_some() && overrides.generated.is_none() {
        tracing::info!("bootstrap.servers of --kafka-config not used: each connection has its own");
    }
    let options = ParseOptions {
        strict: files.strict,
    };
    let overrides = CliOverrides {
        lightstreamer_conf: files.lightstreamer_conf.clone(),
        kafka: ClientProperties(kafka.list().to_vec()),
        reader: files.kafka_reader.map(ReaderChoice::from),
        ..overrides.clone()
    };
    GatewayConfig::load(
        files.adapters.as_deref(),
        files.config.as_deref(),
        &overrides,
        options,
    )
}

fn invalid(reason: String) -> GatewayError {
    GatewayError::Config {
        at: Location {
            file: "command line".to_owned(),
            line: None,
            connection: None,
        },
        reason,
    }
}
