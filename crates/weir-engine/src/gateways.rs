//! Gateways that a plan measures in place of, or next to, its own: any TLCP server, other fan-out
//! servers. They run already, or a command of the file starts them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use serde::Deserialize;
use thiserror::Error;

/// Error in a file of gateways, or of a gateway that cannot be started.
#[derive(Debug, Error)]
pub enum GatewayFileError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Read(String, #[source] io::Error),
    /// The text is not TOML, or has unknown keys or values.
    #[error("{0}: {1}")]
    Syntax(String, #[source] Box<toml::de::Error>),
    /// A name is empty, used twice or has characters that are not possible in names of files.
    #[error("{0}: gateway \"{1}\": use a unique name of letters, digits, '-', '_' and '.'")]
    Name(String, String),
    /// The URL has no port on which the gateway could be found.
    #[error("{0}: gateway \"{1}\": url \"{2}\" has no host and port")]
    Url(String, String, String),
}

/// Reason why a gateway cannot be started here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MissingProgram {
    /// The program of `command` or `check` does not exist.
    #[error("program \"{0}\" is not installed, or not in PATH")]
    Program(String),
    /// The command of `check` failed: its last line.
    #[error("its check failed: {0}")]
    Check(String),
}

/// Gateway that this run has not configured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalGateway {
    /// Unique name, in results and file names.
    pub name: String,
    /// URL of the clients, with a path unless the protocol is `tlcp`.
    pub url: String,
    /// Protocol as in `weir load clients --protocol`.
    #[serde(default = "tlcp")]
    pub protocol: String,
    /// Item of a client; default: that of the plan.
    pub items: Option<String>,
    /// Fields, for JSON with the paths of members; default: those of the plan.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Adapter set and data adapter of TLCP; default: those of the plan.
    pub adapter_set: Option<String>,
    /// Data adapter of TLCP.
    pub data_adapter: Option<String>,
    /// First message to a WebSocket server.
    pub subscribe_message: Option<String>,
    /// Text of the message that confirms a subscription.
    pub live_when: Option<String>,
    /// PEM file with trusted CA certificates.
    pub ca: Option<String>,
    /// Headers that producers add for it, `NAME=VALUE`.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Program and arguments that start it for each cell; empty: it runs already.
    #[serde(default)]
    pub command: Vec<String>,
    /// Program and arguments that succeed if all that `command` needs is installed.
    #[serde(default)]
    pub check: Vec<String>,
    /// Files that are written into the cell's directory before: name, and template next to the
    /// file of gateways. Placeholders are replaced.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Texts of these files.
    #[serde(skip)]
    templates: BTreeMap<String, String>,
    /// Directory of the file of gateways, for `@HERE@`.
    #[serde(skip)]
    here: PathBuf,
}

/// Values of a cell, which replace the placeholders `@BOOTSTRAP@`, `@TOPIC@`, `@PORT@` and `@DIR@`.
#[derive(Debug, Clone, Copy)]
pub struct CellValues<'a> {
    /// Bootstrap servers.
    pub bootstrap: &'a str,
    /// Topic.
    pub topic: &'a str,
    /// Free port for a gateway that is started.
    pub port: u16,
    /// Directory of the cell.
    pub dir: &'a Path,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGateways {
    gateway: Vec<ExternalGateway>,
}

impl ExternalGateway {
    /// Returns the TLCP server at a URL, with the subscriptions of the plan.
    pub fn at(url: &str) -> Self {
        Self {
            name: "external".to_owned(),
            url: url.to_owned(),
            protocol: tlcp(),
            items: None,
            fields: Vec::new(),
            adapter_set: None,
            data_adapter: None,
            subscribe_message: None,
            live_when: None,
            ca: None,
            headers: Vec::new(),
            command: Vec::new(),
            check: Vec::new(),
            files: BTreeMap::new(),
            templates: BTreeMap::new(),
            here: PathBuf::new(),
        }
    }

    /// Reads a file with tables `[[gateway]]`.
    ///
    /// # Errors
    /// [`GatewayFileError`] if the file is invalid.
    pub fn read(path: &Path) -> Result<Vec<Self>, GatewayFileError> {
        let file = path.display().to_string();
        let read = |path: &Path| {
            let failed = |error| GatewayFileError::Read(path.display().to_string(), error);
            fs::read_to_string(path).map_err(failed)
        };
        let raw: RawGateways = toml::from_str(&read(path)?)
            .map_err(|error| GatewayFileError::Syntax(file.clone(), Box::new(error)))?;
        let (mut gateways, mut names) = (raw.gateway, BTreeSet::new());
        let here = path.parent().unwrap_or_else(|| Path::new(""));
        let absolute = std::path::absolute(here.join("."));
        let here = absolute.map_err(|error| GatewayFileError::Read(file.clone(), error))?;
        for gateway in &mut gateways {
            let name = gateway.name.clone();
            if !is_file_name(&name) || !names.insert(name.clone()) {
                return Err(GatewayFileError::Name(file, name));
            }
            let values = CellValues {
                bootstrap: "",
                topic: "",
                port: 1,
                dir: Path::new(""),
            };
            if authority(&gateway.url_for(values)).is_none() {
                return Err(GatewayFileError::Url(file, name, gateway.url.clone()));
            }
            gateway.here.clone_from(&here);
            for (target, template) in &gateway.files {
                let text = read(&path.with_file_name(template))?;
                gateway.templates.insert(target.clone(), text);
            }
        }
        Ok(gateways)
    }

    /// Returns `true` if the run starts it.
    pub fn is_started(&self) -> bool {
        !self.command.is_empty()
    }

    /// Checks that the programs that start it are installed.
    ///
    /// # Errors
    /// The first [`MissingProgram`].
    pub fn require_programs(&self) -> Result<(), MissingProgram> {
        for command in [&self.command, &self.check] {
            let program = command.first().map(|program| self.in_here(program));
            if let Some(missing) = program.filter(|program| !is_program(program)) {
                return Err(MissingProgram::Program(missing));
            }
        }
        let Some((program, args)) = self.check.split_first() else {
            return Ok(());
        };
        let mut check = Command::new(self.in_here(program));
        check.args(args.iter().map(|arg| self.in_here(arg)));
        let failed = |text: &str| {
            let last = text.lines().rev().find(|line| !line.trim().is_empty());
            MissingProgram::Check(last.unwrap_or("no message").trim().to_owned())
        };
        match check.current_dir(&self.here).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(failed(&String::from_utf8_lossy(&output.stderr))),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Returns the URL of the clients.
    pub fn url_for(&self, values: CellValues<'_>) -> String {
        self.fill(&self.url, values)
    }

    /// Returns the address of a URL of [`url_for`](Self::url_for), as far as it is known here.
    pub fn address(url: &str) -> Option<SocketAddr> {
        authority(url)?.to_socket_addrs().ok()?.next()
    }

    /// Writes the files of a cell.
    ///
    /// # Errors
    /// The error of the first file that cannot be written, with its path.
    pub fn write_files(&self, values: CellValues<'_>) -> Result<(), (PathBuf, io::Error)> {
        for (name, template) in &self.templates {
            let path = values.dir.join(name);
            fs::write(&path, self.fill(template, values)).map_err(|error| (path, error))?;
        }
        Ok(())
    }

    /// Returns program and arguments of a cell; `None` if the run does not start it.
    pub fn command_for(&self, values: CellValues<'_>) -> Option<(PathBuf, Vec<String>)> {
        let (program, args) = self.command.split_first()?;
        let args = args.iter().map(|arg| self.fill(arg, values));
        Some((PathBuf::from(self.fill(program, values)), args.collect()))
    }

    fn fill(&self, text: &str, values: CellValues<'_>) -> String {
        self.in_here(text)
            .replace("@BOOTSTRAP@", values.bootstrap)
            .replace("@TOPIC@", values.topic)
            .replace("@PORT@", &values.port.to_string())
            .replace("@DIR@", &values.dir.display().to_string())
    }

    fn in_here(&self, text: &str) -> String {
        text.replace("@HERE@", &self.here.display().to_string())
    }

    /// Returns the options of `weir load clients` that differ from those of the plan.
    pub fn client_args(&self) -> Vec<String> {
        let fields = Some(self.fields.join(",")).filter(|fields| !fields.is_empty());
        let options = [
            ("--items", self.items.clone()),
            ("--fields", fields),
            ("--adapter-set", self.adapter_set.clone()),
            ("--data-adapter", self.data_adapter.clone()),
            ("--subscribe-message", self.subscribe_message.clone()),
            ("--live-when", self.live_when.clone()),
            ("--ca", self.ca.clone()),
        ];
        let given = options.into_iter();
        let given = given.filter_map(|(option, value)| Some([option.to_owned(), value?]));
        let protocol = ["--protocol".to_owned(), self.protocol.clone()];
        protocol.into_iter().chain(given.flatten()).collect()
    }
}

fn tlcp() -> String {
    "tlcp".to_owned()
}

/// Returns `host:port` of a URL.
fn authority(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next()?;
    let (host, port) = authority.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    (!host.is_empty()).then_some(authority)
}

fn is_file_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_allowed)
}

/// Returns `true` if a program is a file, or in a directory of `PATH`.
fn is_program(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CENTRIFUGO: &str = r#"
        [[gateway]]
        name = "other"
        protocol = "centrifugo"
        url = "ws://127.0.0.1:@PORT@/connection/websocket"
        items = "{key}"
        fields = ["key=sndValue", "weir"]
        headers = ["channel={key}"]
        command = ["sh", "-c", "cat @DIR@/config.json"]
        files = { "config.json" = "template.json" }
    "#;

    fn read(text: &str) -> Result<Vec<ExternalGateway>, String> {
        let dir = tempfile::tempdir().unwrap();
        read_in(&dir, text)
    }

    fn read_in(dir: &tempfile::TempDir, text: &str) -> Result<Vec<ExternalGateway>, String> {
        let path = dir.path().join("gateways.toml");
        fs::write(&path, text).unwrap();
        fs::write(dir.path().join("template.json"), "{@TOPIC@ @BOOTSTRAP@}").unwrap();
        ExternalGateway::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn files_and_commands_get_the_values_of_a_cell() {
        let gateway = read(CENTRIFUGO).unwrap().swap_remove(0);
        let dir = tempfile::tempdir().unwrap();
        let values = CellValues {
            bootstrap: "b:1",
            topic: "t",
            port: 99,
            dir: dir.path(),
        };
        let url = gateway.url_for(values);
        assert_eq!(url, "ws://127.0.0.1:99/connection/websocket");
        assert_eq!(ExternalGateway::address(&url).unwrap().port(), 99);
        gateway.write_files(values).unwrap();
        let config = dir.path().join("config.json");
        assert_eq!(fs::read_to_string(&config).unwrap(), "{t b:1}");
        let (program, args) = gateway.command_for(values).unwrap();
        assert_eq!(program, Path::new("sh"));
        assert_eq!(args, ["-c".to_owned(), format!("cat {}", config.display())]);
        let args = "--protocol centrifugo --items {key} --fields key=sndValue,weir";
        assert_eq!(gateway.client_args().join(" "), args);
        let plain = ExternalGateway::at("ws://h:1");
        assert!(plain.command_for(values).is_none() && !plain.is_started());
        assert_eq!(plain.client_args(), ["--protocol", "tlcp"]);
    }

    #[test]
    fn missing_programs_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let with = |lines: &str| {
            let url = "[[gateway]]\nname = \"a\"\nurl = \"ws://h:1\"\n";
            read_in(&dir, &format!("{url}{lines}"))
                .unwrap()
                .swap_remove(0)
        };
        let missing = |lines| with(lines).require_programs().map_err(|it| it.to_string());
        assert_eq!(missing("command = [\"sh\"]\ncheck = [\"true\"]"), Ok(()));
        assert_eq!(missing(""), Ok(()));
        let program = missing("command = [\"no-such-program\"]").unwrap_err();
        assert!(
            program.starts_with("program \"no-such-program\" is not"),
            "{program}"
        );
        let check = missing("check = [\"sh\", \"-c\", \"echo no ws >&2; false\"]");
        assert_eq!(check.unwrap_err(), "its check failed: no ws");
    }

    #[test]
    fn mistakes_are_named() {
        let table = |more: &str| format!("[[gateway]]\nname = \"a\"\nurl = \"ws://h:1\"\n{more}");
        assert_eq!(read(&table("")).unwrap().len(), 1);
        for (text, expected) in [
            (
                format!("{0}{0}", table("")),
                "gateway \"a\": use a unique name",
            ),
            (table("").replace("\"a\"", "\"a/b\""), "use a unique name"),
            (table("").replace(":1", ""), "has no host and port"),
            (
                table("files = { a = \"missing\" }"),
                "missing: No such file",
            ),
            (table("port = 1"), "unknown field `port`"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
