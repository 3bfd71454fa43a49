//! Options from environment variables.
//!
//! The name of a variable is `WEIR_`, the first word of the command, and the option: `--listen` of
//! `weir gateway run` is `WEIR_GATEWAY_LISTEN`. Options of all commands have no command in it.

use std::ffi::OsStr;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};

/// Lets every option of a command line be given by its variable. An empty variable counts as unset.
pub(crate) fn with_variables(command: Command) -> Command {
    let command = command.mut_args(|arg| with_variable(arg, None));
    command.mut_subcommands(|command| {
        let group = command.get_name().to_owned();
        of_group(command, &group)
    })
}

/// Returns the variable of an option of the commands that start with `group`.
pub(crate) fn variable(group: Option<&str>, option: &str) -> String {
    let words = ["weir"].into_iter().chain(group).chain([option]);
    let words: Vec<String> = words.map(str::to_uppercase).collect();
    words.join("_").replace('-', "_")
}

fn of_group(command: Command, group: &str) -> Command {
    let command = command.mut_args(|arg| with_variable(arg, Some(group)));
    let command = with_note(command, group);
    command.mut_subcommands(|command| of_group(command, group))
}

fn with_variable(arg: Arg, group: Option<&str>) -> Arg {
    let Some(long) = arg.get_long() else {
        return arg;
    };
    let name = variable(group, long);
    let arg = match arg.get_action() {
        ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
        // A variable holds all values, one per line.
        ArgAction::Append if arg.get_value_delimiter().is_none() => arg.value_delimiter('\n'),
        _ => arg,
    };
    match std::env::var_os(&name).is_some_and(|value| value.is_empty()) {
        true => arg,
        // Neither names nor values in the help: a value may be secret, and the note explains names.
        false => arg.env(name).hide_env(true).hide_env_values(true),
    }
}

/// Adds a note on variables to the long help of a command with options.
fn with_note(command: Command, group: &str) -> Command {
    let example = command.get_arguments().find_map(Arg::get_long);
    let Some(example) = example.map(str::to_owned) else {
        return command;
    };
    let name = variable(Some(group), &example);
    let note = format!(
        "Environment variables set options too, for example {name} sets --{example}. The command \
         line takes precedence."
    );
    let help = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
        .map(|help| format!("{help}\n\n{note}"));
    command.after_long_help(help.unwrap_or(note))
}

/// Returns lines that name the variables that an error of the command line is about. `file_of`
/// returns the file that has set a variable, if one has.
pub(crate) fn note_on(
    error: &clap::Error,
    words: &[impl AsRef<OsStr>],
    file_of: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let words: Vec<_> = words
        .iter()
        .map(|it| it.as_ref().to_string_lossy())
        .collect();
    let group = words.iter().skip(1).find(|word| !word.starts_with('-'));
    let group = group.map(AsRef::as_ref);
    let options = [ContextKind::InvalidArg, ContextKind::PriorArg];
    let options = options.iter().filter_map(|kind| match error.get(*kind) {
        Some(ContextValue::String(text)) => Some(vec![text.clone()]),
        Some(ContextValue::Strings(texts)) => Some(texts.clone()),
        _ => None,
    });
    let names: Vec<String> = options
        .flatten()
        .filter_map(|text| {
            let long = text
                .strip_prefix("--")?
                .split([' ', '='])
                .next()?
                .to_owned();
            let flag = format!("--{long}");
            let is_typed = |word: &&str| **word == flag || word.starts_with(&format!("{flag}="));
            if words
                .iter()
                .map(AsRef::as_ref)
                .any(|word: &str| is_typed(&word))
            {
                return None;
            }
            [variable(group, &long), variable(None, &long)]
                .into_iter()
                .find(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
        })
        .collect();
    let place = |name: String| match file_of(&name) {
        Some(file) => format!("note: {name} is set in {file}"),
        None => format!("note: {name} is set in the environment"),
    };
    let notes: Vec<String> = names.into_iter().map(place).collect();
    (!notes.is_empty()).then(|| notes.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_has_command_and_option() {
        let name = variable(Some("gateway"), "event-loops");
        assert_eq!(name, "WEIR_GATEWAY_EVENT_LOOPS");
        assert_eq!(variable(None, "log-format"), "WEIR_LOG_FORMAT");
    }

    #[test]
    fn all_options_have_variables() {
        fn check(command: &Command, checked: &mut usize) {
            for arg in command
                .get_arguments()
                .filter(|arg| arg.get_long().is_some())
            {
                let id = arg.get_id();
                assert!(arg.get_env().is_some(), "{} {id}", command.get_name());
                assert!(arg.is_hide_env_values_set(), "{} {id}", command.get_name());
                *checked += 1;
            }
            command.get_subcommands().for_each(|it| check(it, checked));
        }
        let mut checked = 0;
        check(&crate::cli::command(), &mut checked);
        assert!(checked > 200, "{checked} options");
    }

    #[test]
    fn child_processes_get_no_options() {
        for group in crate::cli::command().get_subcommands() {
            let has_options = group.get_arguments().any(|arg| arg.get_long().is_some())
                || group.get_subcommands().next().is_some();
            let prefix = variable(Some(group.get_name()), "");
            let is_known = weir_load::child_environment::OPTION_PREFIXES.contains(&prefix.as_str());
            assert_eq!(is_known, has_options, "{prefix}");
        }
    }

    #[test]
    fn variables_of_secrets_are_no_options() {
        let mut names = Vec::new();
        for command in crate::cli::command().get_subcommands() {
            collect(command, &mut names);
        }
        // Read by the commands themselves, and not shown by `ps`.
        for secret in ["WEIR_AGENT_TOKEN", "WEIR_SESSIONS_TOKEN"] {
            assert!(!names.contains(&secret.to_owned()), "{secret}");
        }
    }

    fn collect(command: &Command, names: &mut Vec<String>) {
        let variables = command.get_arguments().filter_map(Arg::get_env);
        names.extend(variables.map(|name| name.to_string_lossy().into_owned()));
        command.get_subcommands().for_each(|it| collect(it, names));
    }
}
