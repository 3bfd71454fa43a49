//! Known drivers, whose source files are embedded in this program and built when they are needed.

use super::sources::{self, SourceFile};
use weir_lab::error::LabError;

/// Name of the driver that is compiled into this program.
pub const BUILT_IN: &str = "librdkafka";

/// Known driver: its source files are embedded in this program.
#[derive(Debug, PartialEq, Eq)]
pub struct BundledDriver {
    /// Name in options and results.
    pub name: &'static str,
    /// Client library.
    pub library: &'static str,
    /// `true` if the conformance test covers it.
    pub is_tested: bool,
    pub(super) build_system: BuildSystem,
    pub(super) sources: &'static [SourceFile],
}

/// Returns the known driver with that name.
pub fn known(name: &str) -> Option<&'static BundledDriver> {
    BUNDLED_DRIVERS.iter().find(|known| known.name == name)
}

pub(super) fn unknown(name: &str) -> LabError {
    let names: Vec<&str> = BUNDLED_DRIVERS.iter().map(|known| known.name).collect();
    LabError::Setting {
        name: "driver",
        value: name.to_owned(),
        reason: format!(
            "unknown; use {BUILT_IN}, {}, or your own with --driver NAME=COMMAND",
            names.join(", ")
        ),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BuildSystem {
    /// `target/driver.jar`, with its dependencies in `target/libs`.
    Maven,
    Go,
    /// `driver.py` in a virtual environment with the packages of `requirements.txt`.
    Python,
    /// `driver.js` with the packages of `package-lock.json`.
    Node {
        package: &'static str,
    },
    /// `out/driver.dll` of a project.
    DotNet {
        /// Directory of the project, next to that of the shared sources.
        project: &'static str,
        /// Command-line argument.
        argument: Option<&'static str>,
        /// The library loads a Java VM.
        needs_java: bool,
    },
}

macro_rules! drivers {
    ($($name:literal $library:literal, tested $tested:literal, $build:expr, $sources:ident;)*) => {
        &[$(BundledDriver {
            name: $name,
            library: $library,
            is_tested: $tested,
            build_system: $build,
            sources: sources::$sources,
        }),*]
    };
}

/// All known drivers.
pub const BUNDLED_DRIVERS: &[BundledDriver] = drivers! {
    "java" "Apache Kafka's own client for Java", tested true, BuildSystem::Maven, JAVA;
    "franz-go" "franz-go, for Go", tested true, BuildSystem::Go, FRANZ_GO;
    "confluent-kafka" "confluent-kafka for Python, on librdkafka", tested true,
        BuildSystem::Python, CONFLUENT_KAFKA;
    "aiokafka" "aiokafka, for Python", tested true, BuildSystem::Python, AIOKAFKA;
    "kafkajs" "KafkaJS, for Node.js", tested true,
        BuildSystem::Node { package: "kafkajs" }, KAFKAJS;
    "dotnet-confluent" "Confluent.Kafka for .NET, on librdkafka", tested false,
        BuildSystem::DotNet { project: "confluent", argument: None, needs_java: false },
        DOTNET_CONFLUENT;
    "dotnet-knet" "KNet for .NET, on Apache Kafka's client for Java", tested false,
        BuildSystem::DotNet { project: "knet", argument: None, needs_java: true }, DOTNET_KNET;
    "dotnet-knet-raw" "KNet for .NET, with the classes of Apache Kafka's client for Java",
        tested false,
        BuildSystem::DotNet { project: "knet", argument: Some("raw"), needs_java: true },
        DOTNET_KNET;
};
