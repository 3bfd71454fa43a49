//! `weir gateway check`: checks a configuration and lists all parameters.

use std::fmt::Display;
use std::time::Duration;

use clap::Args;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use weir_gateway::config::CliOverrides;
use weir_gateway::tls::expiry_text;
use weir_gateway::{GatewayConfig, GatewayError, client_addresses};
use weir_mapping::{
    ConfigReport, ConnectionConfig, Location, Note, ParameterOutcome, ParameterStatus,
    ParseOptions, Severity,
};

use super::config::{GatewayConfigArgs, load};
use super::message_check::{self, MessageFindings};
use super::registry_check::{self, RegistryFindings};
use super::topic_check::{self, PatternFindings};
use crate::cmd::text_table::{add_row, one_line, print_table, print_wrapped};
use crate::exit::{Exit, Failure};
use weir_report::{TextColumn, TextTable};

/// Maximum wait for the brokers of a connection.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of parameters of one kind, such as `field.X`, that are shown without `--all`.
const SAME_KIND_SHOWN_MAX: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct GatewayCheckArgs {
    #[command(flatten)]
    files: GatewayConfigArgs,
    /// Show all parameters, even many of the same kind
    #[arg(long)]
    all: bool,
    /// Do not connect to schema registries, nor to brokers for topics that match a pattern or get
    /// client messages
    #[arg(long)]
    offline: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

struct CheckReport {
    config: Option<GatewayConfig>,
    registries: Vec<RegistryFindings>,
    patterns: Vec<PatternFindings>,
    messages: Vec<MessageFindings>,
    connections: Vec<ConnectionFindings>,
    notes: Vec<Note>,
    errors: Option<GatewayError>,
}

#[derive(Default, Serialize)]
struct ConnectionFindings {
    name: String,
    usable: bool,
    enabled: Option<bool>,
    brokers: Option<String>,
    topics: Option<Vec<String>>,
    fields: Option<Vec<String>>,
    /// Description of the diffs sent, if the whole configuration is valid.
    diffs: Option<String>,
    #[serde(serialize_with = "serialize_parameters")]
    parameters: Vec<ParameterStatus>,
}

/// Checks the configuration, prints the report and returns the exit code, 2 after errors.
pub(super) fn run(args: &GatewayCheckArgs) -> Result<Exit, Failure> {
    let mut report = check(&args.files);
    if let Some(config) = report.config.as_ref().filter(|_| !args.offline) {
        report.registries = registry_check::check(config);
        report.patterns = topic_check::check(config, BROKER_TIMEOUT);
        report.messages = message_check::check(config, BROKER_TIMEOUT);
    }
    if args.json {
        println!("{:#}", report.to_json());
    } else {
        report.print(args.all);
    }
    let exit = |error: &GatewayError| Exit::of_server(error.is_config_error());
    let failed = report.failed_requests().next();
    let unreachable = failed.map_or(Exit::Success, |(exit, _)| *exit);
    Ok(report.errors.as_ref().map_or(unreachable, exit))
}

/// Loads the configuration. If it is invalid, collects the findings for each connection.
fn check(files: &GatewayConfigArgs) -> CheckReport {
    match load(files, &CliOverrides::default()) {
        Ok(config) => CheckReport {
            connections: config
                .connections
                .iter()
                .map(|connection| ConnectionFindings {
                    diffs: Some(config.diffs.describe(&connection.name)),
                    ..ConnectionFindings::of(connection)
                })
                .collect(),
            notes: config.notes.clone(),
            registries: Vec::new(),
            patterns: Vec::new(),
            messages: Vec::new(),
            errors: None,
            config: Some(config),
        },
        Err(error) => {
            let report = config_report(files).unwrap_or_default();
            let connections = report.connections.iter();
            let connections = connections.map(|connection| match connection {
                Ok(usable) => ConnectionFindings::of(usable),
                Err(invalid) => ConnectionFindings {
                    name: invalid.name.clone(),
                    parameters: invalid.parameters.clone(),
                    ..ConnectionFindings::default()
                },
            });
            CheckReport {
                config: None,
                registries: Vec::new(),
                patterns: Vec::new(),
                messages: Vec::new(),
                connections: connections.collect(),
                notes: report.notes,
                errors: Some(error),
            }
        }
    }
}

fn config_report(files: &GatewayConfigArgs) -> Option<ConfigReport> {
    let options = ParseOptions {
        strict: files.strict,
    };
    let path = files.adapters.as_deref()?;
    let xml = std::fs::read_to_string(path).ok()?;
    let name = path.display().to_string();
    let env = |name: &str| std::env::var(name).ok();
    Some(ConfigReport::of(&name, &xml, &env, options))
}

impl ConnectionFindings {
    fn of(config: &ConnectionConfig) -> Self {
        let mapping = &config.mapping;
        Self {
            name: config.name.clone(),
            usable: true,
            enabled: Some(config.enabled),
            brokers: Some(config.bootstrap()),
            topics: Some(mapping.topics().map(str::to_owned).collect()),
            fields: Some(mapping.fields().map(str::to_owned).collect()),
            diffs: None,
            parameters: config.parameters.clone(),
        }
    }

    fn print(&self, all: bool, notes: &[Note]) {
        let has_note = |parameter: &ParameterStatus| {
            let here = |note: &&Note| note.at.connection.as_deref() == Some(self.name.as_str());
            let mut lines = notes.iter().filter(here).filter_map(|note| note.at.line);
            lines.any(|line| parameter.line == Some(line))
        };
        println!("\nconnection {}", self.name);
        if self.enabled == Some(false) {
            println!("  disabled: every subscription is refused");
        }
        if let (Some(brokers), Some(topics), Some(fields)) =
            (&self.brokers, &self.topics, &self.fields)
        {
            println!("  brokers  {brokers}");
            println!("  topics   {}", topics.join(", "));
            println!("  fields   {}", shown_names(fields, all).join(", "));
        }
        if let Some(diffs) = &self.diffs {
            println!("  diffs    {diffs}");
        }
        println!();
        let columns = [
            TextColumn::number("line"),
            TextColumn::text("parameter", 50),
            TextColumn::text("value", 40).cut(12),
            TextColumn::text("status", 8),
            TextColumn::text("remark", usize::MAX),
        ];
        let mut table = TextTable::new(&columns);
        let (mut last_kind, mut same_kind) = (String::new(), 0);
        let mut hidden = 0;
        for parameter in &self.parameters {
            let kind = kind(parameter);
            same_kind = if kind == last_kind { same_kind + 1 } else { 1 };
            last_kind = kind;
            let is_too_many = !last_kind.is_empty() && same_kind > SAME_KIND_SHOWN_MAX;
            if !all && is_too_many && !has_note(parameter) {
                hidden += 1;
                continue;
            }
            let (status, mut remark) = status_text(&parameter.outcome);
            if remark.is_empty() && has_note(parameter) {
                remark = "see the notes";
            }
            let line = parameter
                .line
                .map_or_else(String::new, |line| line.to_string());
            add_row(
                &mut table,
                &[&line, &parameter.name, &parameter.value, status, remark],
            );
        }
        print_table(&table, "  ");
        if hidden > 0 {
            println!("  ... and {hidden} more of the same kinds, all honoured; --all shows them");
        }
    }
}

fn print_all(heading: &str, remarks: &[impl Display]) {
    if !remarks.is_empty() {
        println!("\n{heading}");
    }
    for remark in remarks {
        print_wrapped(&one_line(&remark.to_string()), "  ");
    }
}

/// Returns the kind of a parameter that may occur often and has no remark, otherwise an empty text.
fn kind(parameter: &ParameterStatus) -> String {
    match (&parameter.outcome, parameter.name.split_once('.')) {
        (ParameterOutcome::Honoured, Some((kind @ ("field" | "item-template" | "map"), _))) => {
            kind.to_owned()
        }
        _ => String::new(),
    }
}

fn shown_names(names: &[String], all: bool) -> Vec<String> {
    let mut shown = names.to_vec();
    if !all && names.len() > SAME_KIND_SHOWN_MAX {
        shown.truncate(SAME_KIND_SHOWN_MAX);
        shown.push(format!("... {} in total", names.len()));
    }
    shown
}

fn status_text(status: &ParameterOutcome) -> (&'static str, &str) {
    match status {
        ParameterOutcome::Honoured => ("honoured", ""),
        ParameterOutcome::Ignored(reason) => ("ignored", reason),
        ParameterOutcome::Refused(reason) => ("refused", reason),
    }
}

impl CheckReport {
    fn print(&self, all: bool) {
        if let Some(config) = &self.config {
            let row = |name: &str, value: &dyn Display| println!("{name:<13} {value}");
            let tls = config.tls.as_ref();
            let tls_listen = tls.map(|tls| tls.config.listen.unwrap_or(config.listen));
            let addresses = client_addresses(config.listen, tls_listen);
            let loops = config.event_loops;
            row("adapter set", &config.set_id);
            row("clients", &format_args!("{addresses}, {loops} event loops"));
            if let Some(tls) = tls {
                let until = expiry_text(tls.not_after_unix_s());
                let file = tls.config.certificate.display();
                row("certificate", &format_args!("{file}, until {until}"));
            }
            let (scheme, listen) = (config.admin.scheme(), config.admin.listen);
            row("admin", &format_args!("{scheme}://{listen}"));
            row("compression", &config.compression.describe());
        }
        for connection in &self.connections {
            connection.print(all, &self.notes);
        }
        for registry in &self.registries {
            registry.print();
        }
        for patterns in &self.patterns {
            patterns.print();
        }
        for message in &self.messages {
            message.print();
        }
        print_all("notes", &self.notes);
        print_all("errors", self.errors());
        let count = |status: &str| {
            let parameters = self.connections.iter().flat_map(|c| &c.parameters);
            let status_of = |p: &&ParameterStatus| status_text(&p.outcome).0 == status;
            parameters.filter(status_of).count()
        };
        let (honoured, ignored) = (count("honoured"), count("ignored"));
        let (errors, verdict) = match (&self.config, self.failed_requests().count()) {
            (Some(_), 0) => (String::new(), "the configuration is valid"),
            // The files are consistent, but whether they fit the servers is not known.
            (Some(_), failed) => (
                format!(", {failed} failed requests to registries and brokers"),
                "the configuration was not checked completely",
            ),
            (None, _) => (
                format!(", {} errors", self.errors().len()),
                "the configuration is invalid",
            ),
        };
        println!("\n{honoured} parameters honoured, {ignored} ignored{errors}: {verdict}");
    }

    /// Returns the failed requests to registries and brokers.
    fn failed_requests(&self) -> impl Iterator<Item = &(Exit, String)> {
        let registries = self.registries.iter().map(|one| one.error.as_ref());
        let patterns = self.patterns.iter().map(|one| one.error.as_ref());
        let messages = self.messages.iter().map(|one| one.error.as_ref());
        registries.chain(patterns).chain(messages).flatten()
    }

    fn errors(&self) -> &[GatewayError] {
        self.errors.as_ref().map_or(&[], GatewayError::errors)
    }

    fn to_json(&self) -> Value {
        let gateway = self.config.as_ref().map(|config| {
            json!({
                "adapter_set": config.set_id,
                "listen": config.listen.to_string(),
                "tls": config.tls.as_ref().map(|tls| json!({
                    "listen": tls.config.listen.unwrap_or(config.listen).to_string(),
                    "certificate": tls.config.certificate.display().to_string(),
                    "certificate_ends_unix_s": tls.not_after_unix_s(),
                })),
                "admin": config.admin.listen.to_string(),
                "event_loops": config.event_loops,
                "compression": config.compression.describe(),
            })
        });
        json!({
            "usable": self.config.is_some(),
            "gateway": gateway,
            "connections": self.connections,
            "registries": self.registries,
            "topic_patterns": self.patterns,
            "messages": self.messages,
            "notes": self.notes.iter().map(note_json).collect::<Vec<_>>(),
            "errors": self.errors().iter().map(error_json).collect::<Vec<_>>(),
        })
    }
}

fn serialize_parameters<S: Serializer>(
    parameters: &[ParameterStatus],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(parameters.iter().map(|parameter| {
        let (status, remark) = status_text(&parameter.outcome);
        json!({
            "name": parameter.name,
            "value": parameter.value,
            "line": parameter.line,
            "status": status,
            "remark": remark,
        })
    }))
}

fn note_json(note: &Note) -> Value {
    let severity = match note.severity {
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    with_location(Some(&note.at), severity, &note.text)
}

fn error_json(error: &GatewayError) -> Value {
    let (at, text) = error.location();
    with_location(at.as_ref(), "error", &text)
}

fn with_location(at: Option<&Location>, severity: &str, text: &str) -> Value {
    json!({
        "severity": severity,
        "file": at.map(|at| &at.file),
        "line": at.and_then(|at| at.line),
        "connection": at.and_then(|at| at.connection.as_ref()),
        "text": text,
    })
}
