//! Groups of options, and the short help: what most users need, on one screen. `--help` shows all.

use clap::{Arg, Command};

/// Groups the options of all commands, and shortens the short help.
pub(crate) fn arrange(command: Command) -> Command {
    // Options of all commands.
    let command =
        command.mut_args(|arg| short(grouped(arg), |long| !RARELY_NEEDED.contains(&long)));
    command.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        arrange_below(command, &name)
    })
}

fn arrange_below(command: Command, path: &str) -> Command {
    let command = command.mut_args(grouped);
    let shown = SHORT_HELP.iter().find(|(name, _)| *name == path);
    let command = match shown {
        Some((_, shown)) => command.mut_args(|arg| short(arg, |long| shown.contains(&long))),
        None => command.mut_args(|arg| short(arg, |long| !RARELY_NEEDED.contains(&long))),
    };
    let command = with_short_notes(command, path);
    command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        arrange_below(command, &path)
    })
}

fn short(arg: Arg, is_shown: impl Fn(&str) -> bool) -> Arg {
    let is_hidden = arg.get_long().is_some_and(|long| !is_shown(long));
    arg.hide_short_help(is_hidden)
}

/// Puts an option without a heading under that of its kind.
fn grouped(arg: Arg) -> Arg {
    if arg.get_help_heading().is_some() {
        return arg;
    }
    let long = arg.get_long().unwrap_or_default();
    let heading = HEADINGS.iter().find(|(_, longs)| longs.contains(&long));
    match heading {
        Some((heading, _)) => arg.help_heading(*heading),
        None => arg,
    }
}

/// Replaces long notes below the short help, and says where the other options are.
fn with_short_notes(command: Command, path: &str) -> Command {
    let notes = command.get_after_help().map(ToString::to_string);
    let notes = notes.unwrap_or_default();
    let has_hidden = command.get_arguments().any(|arg| {
        arg.is_hide_short_help_set()
            && !RARELY_NEEDED_BY_ALL.contains(&arg.get_long().unwrap_or_default())
    });
    let is_long = notes.lines().count() > NOTE_LINES_MAX;
    let more = format!("All options and notes: weir {path} --help");
    match (is_long, has_hidden) {
        (false, false) => command,
        (true, _) => command.after_help(more),
        (false, true) if notes.is_empty() => command.after_help(more),
        (false, true) => command.after_help(format!("{notes}\n\n{more}")),
    }
}

/// Longer notes are in the long help only.
const NOTE_LINES_MAX: usize = 5;

const HEADINGS: &[(&str, &[&str])] = &[
    (
        "Kafka",
        &[
            "bootstrap",
            "kafka-config",
            "kafka-property",
            "kafka-reader",
            "registry",
            "registry-config",
        ],
    ),
    (
        "Output",
        &[
            "out",
            "json",
            "summary-json",
            "published-report",
            "report-interval",
            "markdown",
            "html",
            "worker",
        ],
    ),
    ("Log", &["log", "log-format"]),
    ("Environment", &["options-file"]),
];

/// Options that no short help shows, unless [`SHORT_HELP`] names them.
const RARELY_NEEDED: &[&str] = &[
    "event-loops",
    "kafka-property",
    "kafka-reader",
    "lightstreamer-conf",
    "log-format",
    "options-file",
];

/// Of these, the options of all commands: the note on hidden options is not about them.
const RARELY_NEEDED_BY_ALL: &[&str] = &["log-format", "options-file"];

/// Options in the short help of commands with many of them.
const SHORT_HELP: &[(&str, &[&str])] = &[
    (
        "gateway explain",
        &[
            "adapters",
            "config",
            "kafka-config",
            "connection",
            "record",
            "topic",
            "partition",
            "offset",
            "last",
            "item",
            "token",
            "json",
        ],
    ),
    (
        "gateway tail",
        &[
            "fields",
            "url",
            "mode",
            "adapter-set",
            "token-file",
            "count",
            "json",
        ],
    ),
    (
        "load produce",
        &[
            "topic",
            "rate",
            "producers",
            "size",
            "kind",
            "duration",
            "count",
            "bootstrap",
            "json",
        ],
    ),
    (
        "load consume",
        &[
            "topic",
            "consumers",
            "architecture",
            "duration",
            "from-start",
            "records",
            "bootstrap",
            "kafka-config",
            "json",
        ],
    ),
    (
        "load clients",
        &[
            "url",
            "clients",
            "ramp",
            "duration",
            "scenario",
            "adapter-set",
            "data-adapter",
            "items",
            "fields",
            "mode",
            "json",
        ],
    ),
    (
        "lab up",
        &[
            "brokers",
            "dir",
            "port",
            "security",
            "registry",
            "foreground",
            "keep-data",
            "json",
        ],
    ),
    (
        "bench run",
        &[
            "quick",
            "bootstrap",
            "out",
            "json",
            "levels",
            "architectures",
            "rate",
            "repetitions",
            "hold",
            "baseline",
        ],
    ),
    (
        "bench find-max",
        &[
            "quick",
            "architecture",
            "vary",
            "clients",
            "rate",
            "bootstrap",
            "out",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_options_exist() {
        let command = crate::cli::command();
        for (path, longs) in SHORT_HELP {
            let mut found = &command;
            for word in path.split(' ') {
                found = found
                    .find_subcommand(word)
                    .unwrap_or_else(|| panic!("{path}"));
            }
            for long in *longs {
                let has = |arg: &Arg| arg.get_long() == Some(long);
                assert!(found.get_arguments().any(has), "{path} --{long}");
            }
        }
    }

    /// Lines that clap would wrap lose their form: examples and tables, which are indented, and
    /// text with line breaks of its own. Returns the number of lines.
    fn check_notes(command: &Command, path: &str) -> usize {
        let notes = command.get_after_long_help().map(ToString::to_string);
        let notes = notes.unwrap_or_default();
        let mut follows_text = false;
        for line in notes.lines() {
            let is_text = !line.starts_with(' ') && !line.is_empty();
            assert!(is_text || line.len() <= COLUMNS, "{path}: {line}");
            let is_broken = is_text && follows_text;
            assert!(!is_broken, "{path}: a line break within text before {line}");
            follows_text = is_text && line.len() > COLUMNS / 2;
        }
        let below = command.get_subcommands().map(|command| {
            let path = format!("{path} {}", command.get_name());
            check_notes(command, &path)
        });
        below.sum::<usize>() + notes.lines().count()
    }

    /// Width of a terminal.
    const COLUMNS: usize = 80;

    #[test]
    fn notes_fit_a_terminal() {
        assert!(check_notes(&crate::cli::command(), "weir") > 100);
    }
}
