//! Known drivers, whose sources are part of this program.

use super::sources::{self, SourceFile};
use weir_lab::error::LabError;

/// Name of the built-in driver.
pub(super) const BUILT_IN: &str = "librdkafka";

/// Driver whose source is part of this program.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltInDriver {
    /// Name in options and results.
    pub name: &'static str,
    /// Client library.
    pub library: &'static str,
    /// Tools that must be installed.
    pub needs: &'static str,
    /// Covered by the conformance test.
    pub is_tested: bool,
    pub(super) build_system: BuildSystem,
    pub(super) sources: &'static [SourceFile],
}

/// Returns the known driver with that name.
#[must_use]
pub fn known(name: &str) -> Option<&'static BuiltInDriver> {
    KNOWN.iter().find(|known| known.name == name)
}

pub(super) fn unknown(name: &str) -> LabError {
    let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    LabError::Setting {
        name: "driver",
        value: name.to_owned(),
        reason: format!(
            "unknown; use {BUILT_IN}, {}, or your own with --driver NAME=COMMAND",
            names.join(", ")
        ),
    }
}

/// Build system of a driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BuildSystem {
    /// `target/driver.jar`, with its dependencies in `target/libs`.
    Maven,
    /// One executable.
    Go,
    /// `driver.py` in a virtual environment with the packages of `requirements.txt`.
    Python,
    /// `driver.js` with the packages of `package-lock.json`.
    Node {
        /// Package of the client library.
        package: &'static str,
    },
    /// `out/driver.dll`, which supports two libraries.
    DotNet {
        /// Command-line argument that selects the library.
        argument: &'static str,
    },
}

/// All known drivers.
pub const KNOWN: &[BuiltInDriver] = &[
    BuiltInDriver {
        name: "java",
        library: "Apache Kafka's own client for Java",
        needs: "a JDK 17 or newer and Maven",
        is_tested: true,
        build_system: BuildSystem::Maven,
        sources: sources::JAVA,
    },
    BuiltInDriver {
        name: "franz-go",
        library: "franz-go, for Go",
        needs: "Go 1.26 or newer",
        is_tested: true,
        build_system: BuildSystem::Go,
        sources: sources::FRANZ_GO,
    },
    BuiltInDriver {
        name: "confluent-kafka",
        library: "confluent-kafka for Python, on librdkafka",
        needs: "Python 3 with venv",
        is_tested: true,
        build_system: BuildSystem::Python,
        sources: sources::CONFLUENT_KAFKA,
    },
    BuiltInDriver {
        name: "aiokafka",
        library: "aiokafka, for Python",
        needs: "Python 3 with venv",
        is_tested: true,
        build_system: BuildSystem::Python,
        sources: sources::AIOKAFKA,
    },
    BuiltInDriver {
        name: "kafkajs",
        library: "KafkaJS, for Node.js",
        needs: "Node.js 18 or newer and npm",
        is_tested: true,
        build_system: BuildSystem::Node { package: "kafkajs" },
        sources: sources::KAFKAJS,
    },
    BuiltInDriver {
        name: "dotnet-confluent",
        library: "Confluent.Kafka for .NET, on librdkafka",
        needs: "the .NET SDK",
        is_tested: false,
        build_system: BuildSystem::DotNet {
            argument: "confluent",
        },
        sources: sources::DOTNET,
    },
    BuiltInDriver {
        name: "dotnet-knet",
        library: "KNet for .NET, on Apache Kafka's client for Java",
        needs: "the .NET SDK and a JDK",
        is_tested: false,
        build_system: BuildSystem::DotNet { argument: "knet" },
        sources: sources::DOTNET,
    },
];
