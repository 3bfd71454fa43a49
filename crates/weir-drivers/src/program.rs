//! Driver programs: the built-in driver, known drivers that are built on demand, and the user's
//! own.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::known::BUILT_IN;
use weir_lab::error::LabError;

/// Driver that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverProgram {
    /// Name in a run and of its files.
    pub name: String,
    argv: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

impl DriverProgram {
    /// Returns the librdkafka driver built into `exe`, this program.
    pub fn built_in(exe: &Path) -> Self {
        let argv = [exe.as_os_str().to_owned(), "bench".into(), "driver".into()];
        Self::new(BUILT_IN, argv)
    }

    /// Parses a user's driver `NAME=COMMAND`. A shell runs the command, which must become the
    /// driver.
    pub fn given(text: &str) -> Result<Self, LabError> {
        let invalid = |reason: &str| LabError::Setting {
            name: "--driver",
            value: text.to_owned(),
            reason: reason.to_owned(),
        };
        let (name, command) = text
            .split_once('=')
            .ok_or_else(|| invalid("not of the form NAME=COMMAND"))?;
        if !is_name(name) {
            return Err(invalid(
                "the name must have 1 to 32 letters, digits, '-', '_' or '.', and start with a \
                 letter or digit",
            ));
        }
        if command.trim().is_empty() {
            return Err(invalid("the command is missing"));
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

    /// Returns the same program with another name, to compare a driver with itself.
    pub fn renamed(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Returns a human-readable command line.
    pub fn line(&self) -> String {
        let words = self.argv.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }

    pub(super) fn program(&self) -> &Path {
        // Invariant: all constructors set a program.
        Path::new(&self.argv[0])
    }

    /// Returns the command that starts it, for callers that handle the protocol themselves.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command.args(&self.argv[1..]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let first = name.chars().next();
    (1..=32).contains(&name.len())
        && first.is_some_and(|c| c.is_ascii_alphanumeric())
        && name.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn user_drivers_need_name_and_command() {
        let given = DriverProgram::given("mine-2= ./driver --fast 'a b' ").unwrap();
        assert_eq!(given.name, "mine-2");
        assert_eq!(given.line(), "sh -c exec ./driver --fast 'a b'");
        assert_eq!(given.renamed("other").name, "other");
        for (text, expected) in [
            ("driver", "NAME=COMMAND"),
            ("=x", "the name must"),
            ("../x=y", "the name must"),
            ("a b=y", "the name must"),
            ("a= ", "command is missing"),
        ] {
            let error = DriverProgram::given(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_driver_error_lists_known_ones() {
        let stop = AtomicBool::new(false);
        let error = DriverProgram::known("sarama", &mut |_| {}, &stop).unwrap_err();
        assert_eq!(error.driver, "sarama");
        assert!(matches!(error.reason, crate::DriverFailure::NotBuilt(_)));
        let text = error.to_string();
        assert!(text.contains("librdkafka, java, franz-go"), "{text}");
        assert!(text.contains("--driver NAME=COMMAND"), "{text}");
    }

    #[test]
    fn built_in_driver_is_this_program() {
        let program = DriverProgram::built_in(Path::new("/opt/weir"));
        assert_eq!(program.line(), "/opt/weir bench driver");
    }
}
