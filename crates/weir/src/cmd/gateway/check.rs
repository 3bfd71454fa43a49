//! `weir gateway check`: what a configuration means, parameter by parameter.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use weir_gateway::config::CliOverrides;
use weir_gateway::tls::ends;
use weir_gateway::{GatewayConfig, GatewayError, client_addresses};
use weir_mapping::{
    ConfigReport, ConnectionConfig, FieldName, Location, Note, ParameterOutcome, ParameterStatus,
    ParseOptions, Severity,
};

use super::table::{TextTable, one_line};
use super::{GatewayConfigArgs, exit, read};
use crate::exit::{Exit, Failure};

/// Rows of the same kind, such as `field.X`, of which only the first are shown.
const ALIKE_SHOWN: usize = 20;

/// What to check and how to say it.
#[derive(Debug, Args)]
pub(crate) struct GatewayCheckArgs {
    #[command(flatten)]
    files: GatewayConfigArgs,
    /// Show every parameter, also where there are many alike.
    #[arg(long)]
    all: bool,
    /// Write JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// What is known of the files, usable or not.
struct CheckReport {
    config: Option<GatewayConfig>,
    connections: Vec<ConnectionFindings>,
    notes: Vec<Note>,
    errors: Option<GatewayError>,
}

struct ConnectionFindings {
    name: String,
    usable: Option<GatewaySettings>,
    /// Which diffs are sent; known if the whole configuration is usable.
    diffs: Option<String>,
    parameters: Vec<ParameterStatus>,
}

struct GatewaySettings {
    enabled: bool,
    brokers: String,
    topics: Vec<String>,
    fields: Vec<String>,
}

/// Reads, says what was found, and ends with code 2 if anything is wrong.
pub(super) fn run(args: &GatewayCheckArgs) -> Result<Exit, Failure> {
    let findings = look(&args.files);
    if args.json {
        println!("{:#}", findings.to_json());
    } else {
        findings.print(args.all);
    }
    Ok(match findings.errors {
        None => Exit::Fine,
        Some(error) => exit(&error),
    })
}

/// The whole configuration; if it cannot be used, what can be said of the connections.
fn look(files: &GatewayConfigArgs) -> CheckReport {
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
            let path = files.adapters.as_deref();
            let survey = path.and_then(|path| survey(path, files));
            let survey = survey.unwrap_or_default();
            let connections = survey.connections.iter();
            let connections = connections.map(|connection| match connection {
                Ok(usable) => ConnectionFindings::of(usable),
                Err(refused) => ConnectionFindings {
                    name: refused.name.clone(),
                    usable: None,
                    diffs: None,
                    parameters: refused.parameters.clone(),
                },
            });
            CheckReport {
                config: None,
                connections: connections.collect(),
                notes: survey.notes,
                errors: Some(error),
            }
        }
    }
}

fn survey(path: &Path, files: &GatewayConfigArgs) -> Option<ConfigReport> {
    let options = ParseOptions {
        strict: files.strict,
    };
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
                fields: mapping.fields().iter().map(FieldName::to_string).collect(),
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
            println!("  fields   {}", few(&settings.fields, all).join(", "));
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
        let mut alike = (String::new(), 0);
        let mut hidden = 0;
        for parameter in &self.parameters {
            let kind = kind(parameter);
            alike = if kind == alike.0 {
                (kind, alike.1 + 1)
            } else {
                (kind, 1)
            };
            if !all && !alike.0.is_empty() && alike.1 > ALIKE_SHOWN && !has_note(parameter) {
                hidden += 1;
                continue;
            }
            let (status, mut remark) = said(&parameter.status);
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
            println!("  ... and {hidden} more of the kinds above, all honoured; --all shows them");
        }
    }
}

/// The kind of a parameter of which there may be a thousand and nothing is to be said.
fn kind(parameter: &ParameterStatus) -> String {
    match (&parameter.status, parameter.name.split_once('.')) {
        (ParameterOutcome::Honoured, Some((kind @ ("field" | "item-template" | "map"), _))) => {
            kind.to_owned()
        }
        _ => String::new(),
    }
}

fn few(names: &[String], all: bool) -> Vec<String> {
    if all || names.len() <= ALIKE_SHOWN {
        return names.to_vec();
    }
    let mut few = names[..ALIKE_SHOWN].to_vec();
    few.push(format!("... {} in all", names.len()));
    few
}

fn said(status: &ParameterOutcome) -> (&'static str, &str) {
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
            let beside = tls.map(|tls| tls.config.listen.unwrap_or(config.listen));
            let addresses = client_addresses(config.listen, beside);
            println!("clients       {addresses}, {} event loops", config.shards);
            if let Some(tls) = tls {
                let until = ends(tls.not_after_unix_s());
                println!(
                    "certificate   {}, until {until}",
                    tls.config.certificate.display()
                );
            }
            println!("admin         http://{}", config.admin);
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
        let count = |status: &str| self.count(status);
        let (honoured, ignored) = (count("honoured"), count("ignored"));
        match self.config {
            Some(_) => println!(
                "\n{honoured} parameters honoured, {ignored} ignored: the configuration is usable"
            ),
            None => println!(
                "\n{honoured} parameters honoured, {ignored} ignored, {} errors: the configuration \
                 is refused",
                self.errors().len()
            ),
        }
    }

    fn errors(&self) -> &[GatewayError] {
        self.errors.as_ref().map_or(&[], GatewayError::each)
    }

    fn count(&self, status: &str) -> usize {
        let parameters = self.connections.iter().flat_map(|c| &c.parameters);
        parameters.filter(|p| said(&p.status).0 == status).count()
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
                "admin": config.admin.to_string(),
                "shards": config.shards,
                "compression": config.compression.describe(),
            })
        });
        json!({
            "usable": self.config.is_some(),
            "gateway": gateway,
            "connections": self.connections.iter().map(ConnectionFindings::to_json).collect::<Vec<_>>(),
            "notes": self.notes.iter().map(note_json).collect::<Vec<_>>(),
            "errors": self.errors().iter().map(error_json).collect::<Vec<_>>(),
        })
    }
}

impl ConnectionFindings {
    fn to_json(&self) -> Value {
        let parameters = self.parameters.iter().map(|parameter| {
            let (status, remark) = said(&parameter.status);
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
    with_place(Some(&note.at), severity, &note.text)
}

fn error_json(error: &GatewayError) -> Value {
    let (at, text) = error.place();
    with_place(at.as_ref(), "error", &text)
}

fn with_place(at: Option<&Location>, severity: &str, text: &str) -> Value {
    json!({
        "severity": severity,
        "file": at.map(|at| &at.file),
        "line": at.and_then(|at| at.line),
        "connection": at.and_then(|at| at.connection.as_ref()),
        "text": text,
    })
}
