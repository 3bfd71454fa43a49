//! A registry, the independent writer, and gateways that read with it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use weir_gateway::{Gateway, GatewayConfig};
use weir_lab::operation::Operation;
use weir_lab::sdk::python::VenvSpec;
use weir_lab::{LabError, Registry, RegistryOptions, RegistrySecurity};

use crate::support::{Client, TestEnv, skipped};

const WRITER: &str = include_str!("../support/schema_writer.py");
const REQUIREMENTS: &str = include_str!("../support/schema_writer.txt");
/// File with the error output of the writer.
const ERRORS: &str = "writer.log";

/// Key of all records.
pub(crate) const KEY: &str = "python";

/// A registry and the Python that has Confluent's serializers.
pub(crate) struct TestRegistry {
    pub(crate) registry: Registry,
    writer: Mutex<Writer>,
    dir: tempfile::TempDir,
}

/// The running writer; its end of input is its end.
struct Writer {
    child: Child,
    requests: Option<ChildStdin>,
    responses: BufReader<ChildStdout>,
}

impl Writer {
    fn start(python: &Path, dir: &Path) -> Self {
        let script = dir.join("writer.py");
        std::fs::write(&script, WRITER).expect("a file");
        let mut child = Command::new(python)
            .arg(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.join(ERRORS)).expect("a file"))
            .spawn()
            .expect("the writer starts");
        let responses = child.stdout.take().expect("a pipe");
        Self {
            requests: child.stdin.take(),
            responses: BufReader::new(responses),
            child,
        }
    }

    /// Writes a record; returns `true` on success.
    fn write(&mut self, spec: &Value) -> bool {
        let requests = self.requests.as_mut().expect("it runs");
        // A writer that has failed does not read; its error follows.
        let _ = writeln!(requests, "{spec}");
        let mut response = String::new();
        let read = self.responses.read_line(&mut response);
        read.is_ok() && response == "written\n"
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}

impl TestRegistry {
    /// Starts a registry, or returns `None` and prints the reason if this machine lacks a
    /// prerequisite.
    pub(crate) fn start(security: RegistrySecurity, test: &str) -> Option<Self> {
        let options = RegistryOptions {
            security,
            ..RegistryOptions::default()
        };
        let stop = AtomicBool::new(false);
        let python = python(&stop);
        let started = python.and_then(|python| {
            let registry = Registry::start(&options, &mut |_| (), &stop)?;
            Ok((registry, python))
        });
        match started {
            Ok((registry, python)) => {
                let dir = tempfile::tempdir().expect("a directory");
                Some(Self {
                    registry,
                    writer: Mutex::new(Writer::start(&python, dir.path())),
                    dir,
                })
            }
            Err(error) if is_missing(&error) => {
                skipped(&format!("{test}: {error}"));
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the settings of Confluent's registry client, from those that the lab gives.
    pub(crate) fn writer_settings(&self) -> Value {
        let mut settings = json!({ "url": self.registry.url() });
        if let Some(files) = self.registry.files() {
            settings["ssl.ca.location"] = json!(files.authority().pem());
        }
        if let Some((user, password)) = self.registry.login() {
            settings["basic.auth.user.info"] = json!(format!("{user}:{password}"));
        }
        settings
    }

    /// Writes a record of the independent writer. `more` are further members of its input.
    pub(crate) fn write(&self, env: &TestEnv, format: &str, version: u32, more: &Value) {
        let mut spec = json!({
            "servers": env.bootstrap(), "topic": env.topic, "key": KEY, "format": format,
            "version": version, "message": "Order", "registry": self.writer_settings(),
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        if !self.writer.lock().expect("no panic").write(&spec) {
            let errors = std::fs::read_to_string(self.path(ERRORS)).unwrap_or_default();
            panic!("the writer of {format}: {errors}");
        }
    }

    /// Returns the path of a scratch file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Returns the Python with Confluent's serializers, which is installed if it is not cached.
fn python(stop: &AtomicBool) -> Result<PathBuf, LabError> {
    let venv = VenvSpec {
        name: "schema-writer-1".to_owned(),
        what: "Confluent's serializers for Python".to_owned(),
        requirements: REQUIREMENTS,
    };
    let mut operation = Operation {
        progress: &mut |_| (),
        stop,
    };
    Ok(venv.find(&mut operation)?.1)
}

/// Returns `true` if a tool or the network is missing.
fn is_missing(error: &LabError) -> bool {
    matches!(error, LabError::MissingTool { .. } | LabError::Fetch(..))
}

/// Returns a configuration with values of a type, fields, and further parameters.
pub(crate) fn config(
    env: &TestEnv,
    evaluator: &str,
    fields: &[(&str, &str)],
    more: &str,
    table: &str,
) -> GatewayConfig {
    let field = |(name, path): &(&str, &str)| {
        format!("<param name=\"field.{name}\">#{{VALUE{path}}}</param>")
    };
    let fields: String = fields.iter().map(field).collect();
    let parameters = format!(
        "{}{fields}{more}</data_provider>",
        param("record.value.evaluator.type", evaluator)
    );
    env.config_with(&format!("[schema_registry]\n{table}"), |xml| {
        let xml = xml.replace("<param name=\"field.value\">#{VALUE}</param>", "");
        xml.replacen("</data_provider>", &parameters, 1)
    })
}

pub(crate) fn param(name: &str, value: &str) -> String {
    format!("<param name=\"{name}\">{value}</param>")
}

/// Returns the parameters of a registry for values.
pub(crate) fn registered(url: &str) -> String {
    param("record.value.evaluator.schema.registry.enable", "true")
        + &param("schema.registry.url", url)
}

/// Returns a client that is subscribed to the item of the writer's key.
pub(crate) fn subscribed(gateway: &Gateway, fields: &[(&str, &str)]) -> Client {
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    let mut client = Client::create(gateway);
    client.subscribe(1, &format!("ltest-[key={KEY}]"), &names.join(" "));
    client
}
