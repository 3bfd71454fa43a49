//! Options from a file: `--options-file` or `WEIR_OPTIONS_FILE`.
//!
//! The file is TOML. A table per top-level command has the long names of its options; options of
//! all commands are above the tables. The process sets the environment variables of the options
//! and starts itself again, so options from a file behave like variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command as Process;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Arg, Command};
use toml::Value;

use crate::environment::variable;

/// Name of the option.
pub(crate) const OPTION: &str = "options-file";
/// Environment variable of the option.
const VARIABLE: &str = "WEIR_OPTIONS_FILE";
/// Variable that marks the new process. Its first line is the name of the file, the others are the
/// variables that the file has set.
const APPLIED: &str = "WEIR_OPTIONS_READ";

/// Replaces the process with one that has the options of the file. Returns if no file is requested,
/// or if this is the new process.
pub(crate) fn apply(words: &[OsString], command: &Command) -> Result<()> {
    let Some(file) = requested_file(words) else {
        return Ok(());
    };
    if std::env::var_os(APPLIED).is_some() {
        return Ok(());
    }
    let path = Path::new(&file);
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("--{OPTION} {name}"))?;
    let variables = parse(&text, command).with_context(|| format!("--{OPTION} {name}"))?;
    // A variable of the environment takes precedence, unless it is empty.
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let new: Vec<_> = variables
        .into_iter()
        .filter(|(name, _)| !is_set(name))
        .collect();
    let names: Vec<&str> = new.iter().map(|(name, _)| name.as_str()).collect();
    let mut applied = file.clone();
    applied.push(format!("\n{}", names.join("\n")));
    let mut process = Process::new(std::env::current_exe()?);
    process
        .args(words.iter().skip(1))
        .envs(new)
        .env(APPLIED, applied);
    if let Some(first) = words.first() {
        process.arg0(first);
    }
    Err(process.exec()).with_context(|| format!("--{OPTION} {name}: cannot start again"))
}

/// Returns the file that has set a variable.
pub(crate) fn source_of(variable: &str) -> Option<String> {
    let applied = std::env::var(APPLIED).ok()?;
    let mut lines = applied.lines();
    let file = lines.next()?;
    lines.any(|name| name == variable).then(|| file.to_owned())
}

/// Returns the file of the command line, else that of the environment.
fn requested_file(words: &[OsString]) -> Option<OsString> {
    let flag = format!("--{OPTION}");
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        if *word == *flag {
            return words.next().cloned();
        }
        let value = word.to_str().and_then(|word| word.strip_prefix(&flag));
        if let Some(value) = value.and_then(|value| value.strip_prefix('=')) {
            return Some(value.into());
        }
    }
    let file = std::env::var_os(VARIABLE);
    file.filter(|file| !file.is_empty() && file != OsStr::new("-"))
}

/// Returns the variables of the options in a file. The error lists all invalid options.
fn parse(text: &str, command: &Command) -> Result<BTreeMap<String, String>> {
    let file: toml::Table = text.parse()?;
    let mut options = Vec::new();
    for (key, value) in file {
        match value {
            Value::Table(table) => {
                let group = key;
                options.extend(
                    table
                        .into_iter()
                        .map(|(key, value)| (Some(group.clone()), key, value)),
                );
            }
            value => options.push((None, key, value)),
        }
    }
    let (mut variables, mut errors) = (BTreeMap::new(), Vec::new());
    for (group, key, value) in options {
        match variable_of(command, group.as_deref(), &key, &value) {
            Ok((name, text)) => drop(variables.insert(name, text)),
            Err(error) => errors.push(format!("\n  {error}")),
        }
    }
    ensure!(errors.is_empty(), "{}", errors.concat());
    Ok(variables)
}

/// Returns name and value of the variable of an option.
fn variable_of(
    command: &Command,
    group: Option<&str>,
    key: &str,
    value: &Value,
) -> Result<(String, String)> {
    let (owner, place) = match group {
        None => (Some(command), "at the top".to_owned()),
        Some(group) => (command.find_subcommand(group), format!("in [{group}]")),
    };
    let owner =
        owner.with_context(|| format!("[{}] is not a command", group.unwrap_or_default()))?;
    let found = match group {
        None => own_option(owner, key),
        Some(_) => option(owner, key),
    };
    let Some(arg) = found.filter(|_| key != OPTION) else {
        bail!("{key} {place} is not an option of any of its commands");
    };
    let text = value_text(value, arg.get_value_delimiter());
    let text = text.with_context(|| {
        format!("{key} {place} must be a string, a number, true or false, or a list")
    })?;
    Ok((variable(group, key), text))
}

/// Returns an option of a command itself.
fn own_option<'c>(command: &'c Command, long: &str) -> Option<&'c Arg> {
    command
        .get_arguments()
        .find(|arg| arg.get_long() == Some(long))
}

/// Returns an option of a command or of the commands below it.
fn option<'c>(command: &'c Command, long: &str) -> Option<&'c Arg> {
    own_option(command, long).or_else(|| {
        let mut below = command.get_subcommands();
        below.find_map(|command| option(command, long))
    })
}

/// Returns a value as an environment variable contains it; lists need a delimiter.
fn value_text(value: &Value, delimiter: Option<char>) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(is_set) => Some(is_set.to_string()),
        Value::Array(values) => {
            let delimiter = delimiter?.to_string();
            let texts: Option<Vec<String>> =
                values.iter().map(|one| value_text(one, None)).collect();
            Some(texts?.join(&delimiter))
        }
        Value::Datetime(_) | Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<BTreeMap<String, String>> {
        parse(text, &crate::cli::command())
    }

    #[test]
    fn options_become_variables() {
        let text = "log = \"debug\"\n[gateway]\nlisten = \"0.0.0.0:80\"\nstrict = true\n\
                    topic = [\"a\", \"b\"]\n[bench]\nrepetitions = 3\nlevels = [10, 20]\n";
        let variables = parsed(text).unwrap();
        let expected = [
            ("WEIR_BENCH_LEVELS", "10,20"),
            ("WEIR_BENCH_REPETITIONS", "3"),
            ("WEIR_GATEWAY_LISTEN", "0.0.0.0:80"),
            ("WEIR_GATEWAY_STRICT", "true"),
            ("WEIR_GATEWAY_TOPIC", "a\nb"),
            ("WEIR_LOG", "debug"),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(variables, BTreeMap::from(expected));
    }

    #[test]
    fn all_errors_are_reported() {
        let text = "listen = \"x\"\n[gateway]\nlisten = [1, 2]\nlsiten = \"x\"\n[gatway]\na = 1\n";
        let error = parsed(text).unwrap_err().to_string();
        for part in [
            "listen at the top is not an option",
            "listen in [gateway] must be a string",
            "lsiten in [gateway] is not an option",
            "[gatway] is not a command",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn command_line_names_the_file() {
        let of = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            requested_file(&words)
        };
        assert_eq!(
            of(&["weir", "--options-file", "a", "bench"]),
            Some("a".into())
        );
        assert_eq!(of(&["weir", "bench", "--options-file=b"]), Some("b".into()));
        assert_eq!(of(&["weir", "bench", "--", "--options-file=b"]), None);
    }
}
