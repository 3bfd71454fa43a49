//! `weir gateway check`: checks a configuration and lists all parameters.

use clap::Args;
use serde_json::{Value, json};
use weir_gateway::config::CliOverrides;
use weir_gateway::tls::expiry_text;
use weir_gateway::{GatewayConfig, GatewayError, client_addresses};
use weir_mapping::{
    ConfigReport, ConnectionConfig, Location, Note, ParameterOutcome, ParameterStatus,
    ParseOptions, Severity,
};

use super::config::{GatewayConfigArgs, exit, read};
use super::table::{TextTable, one_line};
use crate::exit::{Exit, Failure};

/// Maximum number of parameters of one kind, such as `field.X`, that are shown without `--all`.
const SAME_KIND_SHOWN_MAX: usize = 20;

/// Arguments of `weir gateway check`.
#[derive(Debug, Args)]
pub(crate) struct GatewayCheckArgs {
    #[command(flatten)]
    files: GatewayConfigArgs,
    /// Show all parameters, even many of the same kind
    #[arg(long)]
    all: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// The result of the check, for valid and invalid configurations.
struct CheckReport {
    config: Option<GatewayConfig>,
    connections: Vec<ConnectionFindings>,
    notes: Vec<Note>,
    errors: Option<GatewayError>,
}

struct ConnectionFindings {
    name: String,
    usable: Option<GatewaySettings>,
    /// Description of the diffs sent, if the whole configuration is valid.
    diffs: Option<String>,
    parameters: Vec<ParameterStatus>,
}

struct GatewaySettings {
    enabled: bool,
    brokers: String,
    topics: Vec<String>,
    fields: Vec<String>,
}

/// Checks the configuration, prints the report and returns the exit code, 2 after errors.
pub(super) fn run(args: &GatewayCheckArgs) -> Result<Exit, Failure> {
    let report = check(&args.files);
    if args.json {
        println!("{:#}", report.to_json());
    } else {
        report.print(args.all);
    }
    Ok(report.errors.as_ref().map_or(Exit::Success, exit))
}

/// Loads the configuration. If it is invalid, collects the findings for each connection.
fn check(files: &GatewayConfigArgs) -> CheckReport {
    match read(files, &CliOverrides::default()) {
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
                    usable: None,
                    diffs: None,
                    parameters: invalid.parameters.clone(),
                },
            });
            CheckReport {
                config: None,
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
            usable: Some(GatewaySettings {
                enabled: config.enabled,
                brokers: config.bootstrap(),
                topics: mapping.topics().map(str::to_owned).collect(),
                fields: mapping.fields().map(str::to_owned).collect(),
            }),
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
        if let Some(settings) = &self.usable {
            if !settings.enabled {
                println!("  disabled: every subscription is refused");
            }
            println!("  brokers  {}", settings.brokers);
            println!("  topics   {}", settings.topics.join(", "));
            println!(
                "  fields   {}",
                shown_names(&settings.fields, all).join(", ")
            );
        }
        if let Some(diffs) = &self.diffs {
            println!("  diffs    {diffs}");
        }
        println!();
        let columns = [
            ("line", 6),
            ("parameter", 50),
            ("value", 40),
            ("status", 8),
            ("remark", 0),
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
            table.row(vec![
                parameter
                    .line
                    .map_or_else(String::new, |line| line.to_string()),
                parameter.name.clone(),
                parameter.value.clone(),
                status.to_owned(),
                remark.to_owned(),
            ]);
        }
        table.print("  ");
        if hidden > 0 {
            println!("  ... and {hidden} more of the same kinds, all honoured; --all shows them");
        }
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

/// Returns the status and the remark of a parameter.
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
            println!("adapter set   {}", config.set_id);
            let tls = config.tls.as_ref();
            let tls_listen = tls.map(|tls| tls.config.listen.unwrap_or(config.listen));
            let addresses = client_addresses(config.listen, tls_listen);
            println!(
                "clients       {addresses}, {} event loops",
                config.event_loops
            );
            if let Some(tls) = tls {
                let until = expiry_text(tls.not_after_unix_s());
                println!(
                    "certificate   {}, until {until}",
                    tls.config.certificate.display()
                );
            }
            println!(
                "admin         {}://{}",
                config.admin.scheme(),
                config.admin.listen
            );
            println!("compression   {}", config.compression.describe());
        }
        for connection in &self.connections {
            connection.print(all, &self.notes);
        }
        if !self.notes.is_empty() {
            println!("\nnotes");
            for note in &self.notes {
                println!("  {}", one_line(&note.to_string()));
            }
        }
        if !self.errors().is_empty() {
            println!("\nerrors");
            for error in self.errors() {
                println!("  {}", one_line(&error.to_string()));
            }
        }
        let count = |status: &str| {
            let parameters = self.connections.iter().flat_map(|c| &c.parameters);
            let status_of = |p: &&ParameterStatus| status_text(&p.outcome).0 == status;
            parameters.filter(status_of).count()
        };
        let (honoured, ignored) = (count("honoured"), count("ignored"));
        let (errors, verdict) = match self.config {
            Some(_) => (String::new(), "valid"),
            None => (format!(", {} errors", self.errors().len()), "invalid"),
        };
        println!(
            "\n{honoured} parameters honoured, {ignored} ignored{errors}: the configuration is \
             {verdict}"
        );
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
        let connections = self.connections.iter().map(ConnectionFindings::to_json);
        json!({
            "usable": self.config.is_some(),
            "gateway": gateway,
            "connections": connections.collect::<Vec<_>>(),
            "notes": self.notes.iter().map(note_json).collect::<Vec<_>>(),
            "errors": self.errors().iter().map(error_json).collect::<Vec<_>>(),
        })
    }
}

impl ConnectionFindings {
    fn to_json(&self) -> Value {
        let parameters = self.parameters.iter().map(|parameter| {
            let (status, remark) = status_text(&parameter.outcome);
            json!({
                "name": parameter.name,
                "value": parameter.value,
                "line": parameter.line,
                "status": status,
                "remark": remark,
            })
        });
        let settings = self.usable.as_ref();
        json!({
            "name": self.name,
            "usable": settings.is_some(),
            "enabled": settings.map(|s| s.enabled),
            "brokers": settings.map(|s| &s.brokers),
            "topics": settings.map(|s| &s.topics),
            "fields": settings.map(|s| &s.fields),
            "diffs": self.diffs,
            "parameters": parameters.collect::<Vec<_>>(),
        })
    }
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
