//! Programs that are drivers: the one in this program, known ones that are built on demand, given ones.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::build::{self, BuildSystem};
use super::error::DriverError;
use super::sources::{self, SourceFile};
use weir_lab::error::LabError;

/// A driver that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverProgram {
    /// Its name in a run; also of its files.
    pub name: String,
    argv: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

impl DriverProgram {
    /// The driver of librdkafka that `exe`, this program, has in itself.
    #[must_use]
    pub fn built_in(exe: &Path) -> Self {
        let argv = [exe.as_os_str().to_owned(), "bench".into(), "driver".into()];
        Self::new(BUILT_IN, argv)
    }

    /// A known driver, built into the per-user cache if it is not there yet.
    ///
    /// # Errors
    /// An unknown name, a missing toolchain, no network, or `stop` was set.
    pub fn known(
        name: &str,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self, DriverError> {
        let wanted = known(name).ok_or_else(|| unknown(name));
        wanted
            .and_then(|known| build::build(known, progress, stop))
            .map_err(|error| DriverError::not_built(name, error))
    }

    /// A driver of the user's, as `NAME=COMMAND`. The command is a shell's; it has to become the driver.
    ///
    /// # Errors
    /// Not of that form.
    pub fn given(text: &str) -> Result<Self, LabError> {
        let wrong = |reason: &str| LabError::Setting {
            name: "--driver",
            value: text.to_owned(),
            reason: reason.to_owned(),
        };
        let (name, command) = text
            .split_once('=')
            .ok_or_else(|| wrong("not of the form NAME=COMMAND"))?;
        if !is_name(name) {
            return Err(wrong(
                "the name has 1 to 32 letters, digits, '-', '_' or '.', and a letter or digit first",
            ));
        }
        if command.trim().is_empty() {
            return Err(wrong("there is no command after the name"));
        }
        let command = format!("exec {}", command.trim());
        Ok(Self::new(name, ["sh".into(), "-c".into(), command.into()]))
    }

    pub(super) fn new(name: &str, argv: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            name: name.to_owned(),
            argv: argv.into_iter().collect(),
            environment: Vec::new(),
        }
    }

    pub(super) fn with(mut self, variable: &'static str, value: OsString) -> Self {
        self.environment.push((variable, value));
        self
    }

    /// The same program under another name: to hold it against itself.
    #[must_use]
    pub fn renamed(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// What is run, for people.
    #[must_use]
    pub fn line(&self) -> String {
        let words = self.argv.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }

    pub(super) fn program(&self) -> &Path {
        // Invariant: all constructors name a program.
        Path::new(&self.argv[0])
    }

    /// What starts it: for those who speak with it themselves.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command.args(&self.argv[1..]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A driver whose source is in this program.
#[derive(Debug, PartialEq, Eq)]
pub struct BuiltInDriver {
    /// What it is asked for by.
    pub name: &'static str,
    /// The library it drives.
    pub library: &'static str,
    /// What has to be installed.
    pub needs: &'static str,
    /// Whether the conformance test runs it.
    pub is_tested: bool,
    pub(super) recipe: BuildSystem,
    pub(super) sources: &'static [SourceFile],
}

/// The known driver of that name.
#[must_use]
pub fn known(name: &str) -> Option<&'static BuiltInDriver> {
    KNOWN.iter().find(|known| known.name == name)
}

fn unknown(name: &str) -> LabError {
    let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    LabError::Setting {
        name: "driver",
        value: name.to_owned(),
        reason: format!(
            "not known; known are {BUILT_IN}, {}; give others with --driver NAME=COMMAND",
            names.join(", ")
        ),
    }
}

fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let first = name.chars().next();
    (1..=32).contains(&name.len())
        && first.is_some_and(|c| c.is_ascii_alphanumeric())
        && name.chars().all(legal)
}

/// Name of the driver in this program.
const BUILT_IN: &str = "librdkafka";

/// All known drivers.
pub const KNOWN: &[BuiltInDriver] = &[
    BuiltInDriver {
        name: "java",
        library: "Apache Kafka's own client for Java",
        needs: "a JDK 17 or newer and Maven",
        is_tested: true,
        recipe: BuildSystem::Maven,
        sources: sources::JAVA,
    },
    BuiltInDriver {
        name: "franz-go",
        library: "franz-go, for Go",
        needs: "Go 1.26 or newer",
        is_tested: true,
        recipe: BuildSystem::Go,
        sources: sources::FRANZ_GO,
    },
    BuiltInDriver {
        name: "confluent-kafka",
        library: "confluent-kafka for Python, on librdkafka",
        needs: "Python 3 with venv",
        is_tested: true,
        recipe: BuildSystem::Python,
        sources: sources::CONFLUENT_KAFKA,
    },
    BuiltInDriver {
        name: "aiokafka",
        library: "aiokafka, for Python",
        needs: "Python 3 with venv",
        is_tested: true,
        recipe: BuildSystem::Python,
        sources: sources::AIOKAFKA,
    },
    BuiltInDriver {
        name: "kafkajs",
        library: "KafkaJS, for Node.js",
        needs: "Node.js 18 or newer and npm",
        is_tested: true,
        recipe: BuildSystem::Node { package: "kafkajs" },
        sources: sources::KAFKAJS,
    },
    BuiltInDriver {
        name: "dotnet-confluent",
        library: "Confluent.Kafka for .NET, on librdkafka",
        needs: "the .NET SDK",
        is_tested: false,
        recipe: BuildSystem::DotNet {
            argument: "confluent",
        },
        sources: sources::DOTNET,
    },
    BuiltInDriver {
        name: "dotnet-knet",
        library: "KNet for .NET, on Apache Kafka's client for Java",
        needs: "the .NET SDK and a JDK",
        is_tested: false,
        recipe: BuildSystem::DotNet { argument: "knet" },
        sources: sources::DOTNET,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_drivers_have_a_name_and_a_command() {
        let given = DriverProgram::given("mine-2= ./driver --fast 'a b' ").unwrap();
        assert_eq!(given.name, "mine-2");
        assert_eq!(given.line(), "sh -c exec ./driver --fast 'a b'");
        assert_eq!(given.renamed("other").name, "other");
        for (text, expected) in [
            ("driver", "NAME=COMMAND"),
            ("=x", "the name has"),
            ("../x=y", "the name has"),
            ("a b=y", "the name has"),
            ("a= ", "no command"),
        ] {
            let error = DriverProgram::given(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_unknown_driver_is_told_the_known_ones() {
        let stop = AtomicBool::new(false);
        let error = DriverProgram::known("sarama", &mut |_| {}, &stop).unwrap_err();
        assert_eq!(
            (error.driver.as_str(), error.kind()),
            ("sarama", "not built")
        );
        let text = error.to_string();
        assert!(text.contains("librdkafka, java, franz-go"), "{text}");
        assert!(text.contains("--driver NAME=COMMAND"), "{text}");
    }

    #[test]
    fn the_built_in_one_is_this_program() {
        let program = DriverProgram::built_in(Path::new("/opt/weir"));
        assert_eq!(program.line(), "/opt/weir bench driver");
    }
}
