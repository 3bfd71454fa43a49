//! Manual pages, one for each command, from the same definitions as the help.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::{Arg, Command};

use crate::cli;
use crate::exit::{Exit, Failure, OrExit as _};

/// Writes the pages of all commands to a directory.
pub(crate) fn write_pages(dir: &Path) -> Result<Exit, Failure> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create directory {}", dir.display()))
        .or_exit(Exit::Usage)?;
    for (name, page) in pages() {
        let path = dir.join(format!("{name}.1"));
        std::fs::write(&path, page)
            .with_context(|| format!("cannot write {}", path.display()))
            .or_exit(Exit::Usage)?;
    }
    Ok(Exit::Success)
}

/// Returns name and text of all pages.
fn pages() -> Vec<(String, String)> {
    let mut root = cli::command();
    // Adds what subcommands inherit, such as global options.
    root.build();
    let mut pages = Vec::new();
    collect(&root, &root.get_name().replace(' ', "-"), None, &mut pages);
    pages
}

fn collect(command: &Command, name: &str, parent: Option<&str>, pages: &mut Vec<(String, String)>) {
    pages.push((name.to_owned(), page(command, name, parent)));
    for child in subcommands(command) {
        collect(
            child,
            &format!("{name}-{}", child.get_name()),
            Some(name),
            pages,
        );
    }
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    let is_shown = |it: &&Command| it.get_name() != "help" && !it.is_hide_set();
    command.get_subcommands().filter(is_shown)
}

fn page(command: &Command, name: &str, parent: Option<&str>) -> String {
    let mut page = Page::default();
    let version = env!("CARGO_PKG_VERSION");
    page.line(&format!(
        ".TH {} 1 \"\" \"Weir {version}\" \"Weir\"",
        escape(&name.to_uppercase())
    ));
    let about = command.get_about().map(ToString::to_string);
    page.section("NAME");
    page.text(&format!("{name} - {}", about.clone().unwrap_or_default()));
    page.section("SYNOPSIS");
    // `Usage: weir gateway run [OPTIONS]`
    let usage = command.clone().render_usage().to_string();
    page.text(usage.trim_start_matches("Usage: "));
    page.section("DESCRIPTION");
    let long = command.get_long_about().map(ToString::to_string);
    page.text(&long.or(about).unwrap_or_default());
    page.commands(command, name);
    page.options(command);
    let notes = command.get_after_long_help();
    if let Some(notes) = notes.or_else(|| command.get_after_help()) {
        page.section("NOTES");
        page.verbatim(&notes.to_string());
    }
    page.exit_status();
    page.see_also(command, name, parent);
    page.0
}

/// Text in the language of `man` under construction.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Adds a line that is not escaped.
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn section(&mut self, title: &str) {
        self.line(&format!(".SH \"{}\"", escape(&title.to_uppercase())));
    }

    /// Adds paragraphs that are separated by empty lines.
    fn text(&mut self, text: &str) {
        for (number, paragraph) in text.trim().split("\n\n").enumerate() {
            if number > 0 {
                self.line(".PP");
            }
            self.line(&escape(paragraph));
        }
    }

    /// Adds text whose line breaks and spaces are kept.
    fn verbatim(&mut self, text: &str) {
        self.line(".nf");
        self.line(&escape(text.trim_end()));
        self.line(".fi");
    }

    /// Adds the description of one entry: a line in bold, then paragraphs below it.
    fn entry(&mut self, term: &str, paragraphs: &[String]) {
        self.line(".TP");
        self.line(term);
        for (number, paragraph) in paragraphs.iter().enumerate() {
            if number > 0 {
                self.line(".IP");
            }
            self.line(&escape(paragraph));
        }
    }

    fn commands(&mut self, command: &Command, name: &str) {
        if subcommands(command).next().is_none() {
            return;
        }
        self.section("COMMANDS");
        for child in subcommands(command) {
            let about = child.get_about().map(ToString::to_string);
            let term = format!(
                "\\fB{}\\fR(1)",
                escape(&format!("{name}-{}", child.get_name()))
            );
            self.entry(&term, &[about.unwrap_or_default()]);
        }
    }

    /// Adds the arguments and options by heading, in the order of the help.
    fn options(&mut self, command: &Command) {
        let arguments = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let arguments: Vec<&Arg> = arguments.collect();
        let mut headings: Vec<&str> = Vec::new();
        for arg in &arguments {
            if !headings.contains(&heading(arg)) {
                headings.push(heading(arg));
            }
        }
        // Arguments are first, as in the help.
        headings.sort_by_key(|heading| (*heading != ARGUMENTS, *heading != OPTIONS));
        for title in headings {
            self.section(title);
            for arg in arguments.iter().filter(|arg| heading(arg) == title) {
                self.entry(&term(arg), &description(arg));
            }
        }
    }

    fn exit_status(&mut self) {
        self.section("EXIT STATUS");
        for (code, meaning) in EXIT_CODES {
            self.entry(&format!("\\fB{code}\\fR"), &[(*meaning).to_owned()]);
        }
    }

    fn see_also(&mut self, command: &Command, name: &str, parent: Option<&str>) {
        let children = subcommands(command).map(|it| format!("{name}-{}", it.get_name()));
        let pages = parent.map(str::to_owned).into_iter().chain(children);
        let pages = pages.map(|page| format!("\\fB{}\\fR(1)", escape(&page)));
        let pages: Vec<String> = pages.collect();
        if !pages.is_empty() {
            self.section("SEE ALSO");
            self.line(&pages.join(",\n"));
        }
    }
}

const ARGUMENTS: &str = "ARGUMENTS";
const OPTIONS: &str = "OPTIONS";

const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "Success."),
    ("1", "A threshold failed, or nothing matched."),
    ("2", "The usage or a configuration is invalid."),
    ("3", "A target did not respond, or violated the protocol."),
    (
        "4",
        "The command itself failed; its measurement is not valid.",
    ),
    (
        "130",
        "Ctrl-C or SIGTERM ended the command before its work was done.",
    ),
];

fn heading(arg: &Arg) -> &str {
    match arg.get_help_heading() {
        Some(heading) => heading,
        None if arg.is_positional() => ARGUMENTS,
        None => OPTIONS,
    }
}

/// Returns the names and values of an argument as one escaped line.
fn term(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let flags: Vec<String> = [short, long]
        .into_iter()
        .flatten()
        .map(|flag| format!("\\fB{}\\fR", escape(&flag)))
        .collect();
    let mut term = flags.join(", ");
    let takes_values = arg.is_positional() || arg.get_action().takes_values();
    let value_name = arg.get_value_names().and_then(|names| names.first());
    if let (true, Some(name)) = (takes_values, value_name) {
        let separator = if flags.is_empty() { "" } else { " " };
        let is_optional = arg
            .get_num_args()
            .is_some_and(|count| count.min_values() == 0);
        let (open, close) = if is_optional { ("[", "]") } else { ("", "") };
        let _ = write!(term, "{separator}{open}\\fI{}\\fR{close}", escape(name));
    }
    term
}

/// Returns the paragraphs about an argument: its help, values, default and variable.
fn description(arg: &Arg) -> Vec<String> {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut paragraphs: Vec<String> = help.split("\n\n").map(str::to_owned).collect();
    let takes_values = arg.is_positional() || arg.get_action().takes_values();
    if takes_values {
        let values = arg.get_possible_values();
        let names: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        if !names.is_empty() {
            paragraphs.push(format!("Known values: {}.", names.join(", ")));
        }
        let defaults = arg.get_default_values().iter();
        let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() {
            paragraphs.push(format!("Default: {}.", defaults.join(", ")));
        }
    }
    if let Some(variable) = arg.get_env() {
        let variable = variable.to_string_lossy();
        paragraphs.push(format!("Environment variable: {variable}."));
    }
    paragraphs
}

/// Escapes what `man` would interpret: backslashes, hyphens, and dots and quotes that begin a line.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut is_line_start = true;
    for c in text.chars() {
        match c {
            '.' | '\'' if is_line_start => {
                escaped.push_str("\\&");
                escaped.push(c);
            }
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            _ => escaped.push(c),
        }
        is_line_start = c == '\n';
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_text_are_escaped() {
        assert_eq!(escape(".SH x"), "\\&.SH x");
        assert_eq!(escape("a\n'b' --c"), "a\n\\&'b\\(aq \\-\\-c");
        assert_eq!(escape("C:\\x"), "C:\\ex");
    }

    #[test]
    fn manual_page_contains_help() {
        let arg = Arg::new("size")
            .long("size")
            .short('s')
            .value_name("BYTES")
            .help("Size of a value")
            .default_value("100")
            .env("WEIR_LOAD_SIZE");
        let command = Command::new("produce").about("Write records").arg(arg);
        let text = page(&command, "weir-load-produce", Some("weir-load"));
        let expected = "\
.SH \"OPTIONS\"
.TP
\\fB\\-s\\fR, \\fB\\-\\-size\\fR \\fIBYTES\\fR
Size of a value
.IP
Default: 100.
.IP
Environment variable: WEIR_LOAD_SIZE.
";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("weir\\-load\\-produce \\- Write records\n"),
            "{text}"
        );
        assert!(
            text.ends_with(".SH \"SEE ALSO\"\n\\fBweir\\-load\\fR(1)\n"),
            "{text}"
        );
    }

    #[test]
    fn every_command_has_a_page() {
        let pages = pages();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in [
            "weir",
            "weir-gateway-run",
            "weir-proxy-run",
            "weir-bench-run",
            "weir-man",
        ] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        let gateway = &pages
            .iter()
            .find(|(name, _)| name == "weir-gateway-run")
            .unwrap()
            .1;
        assert!(
            gateway.contains("Environment variable: WEIR_GATEWAY_LISTEN."),
            "{gateway}"
        );
        // A line of text that starts with a dot would be a request.
        let requests = [".TH", ".SH", ".PP", ".TP", ".IP", ".nf", ".fi"];
        for (name, page) in &pages {
            for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
                assert!(
                    requests.contains(&line.split(' ').next().unwrap()),
                    "{name}: {line}"
                );
            }
        }
    }
}
