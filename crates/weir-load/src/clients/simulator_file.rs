//! Reads the configuration file of the published client simulator and lists ignored parameters.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use roxmltree::{Document, Node};
use thiserror::Error;

use super::scenario::Scenario;

/// Parameters of a simulator file.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatorFile {
    /// One URL per server port.
    pub urls: Vec<String>,
    /// `adapterSetName`.
    pub adapter_set: String,
    /// `scenarioLKC`.
    pub scenario: Scenario,
    /// `numberOfSessions`.
    pub sessions: u64,
    /// Sessions per second, from `delaySessionStartMillis`.
    pub ramp_per_s: Option<f64>,
    /// `sessionDurationSeconds`.
    pub duration: Option<Duration>,
    /// Ignored parameters with line and reason.
    pub notes: Vec<String>,
}

/// Error of a simulator file.
#[derive(Debug, Error)]
#[error("{file}:{line}: {reason}")]
pub struct SimulatorFileError {
    /// File name as given.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Description of the problem and its remedy.
    pub reason: String,
}

impl SimulatorFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, SimulatorFileError> {
        let file = path.display().to_string();
        let mut text = String::new();
        let opened = fs::File::open(path);
        match opened.and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_string(&mut text)) {
            Ok(_) => Self::parse(&text, &file),
            Err(error) => failed(&file, 1, error.to_string()),
        }
    }

    /// Parses a text; `file` is its name in errors.
    fn parse(text: &str, file: &str) -> Result<Self, SimulatorFileError> {
        match Document::parse(text) {
            Ok(document) => SimulatorParams::of(&document, file)?.simulator(),
            Err(reason) => failed(file, reason.pos().row, format!("not XML: {reason}")),
        }
    }
}

fn failed<T>(file: &str, line: u32, reason: String) -> Result<T, SimulatorFileError> {
    let file = file.to_owned();
    Err(SimulatorFileError { file, line, reason })
}

/// Parameters by name, each with its line.
struct SimulatorParams<'a> {
    file: &'a str,
    values: BTreeMap<&'a str, (&'a str, u32)>,
    /// Line of the root element.
    line: u32,
}

impl<'a> SimulatorParams<'a> {
    fn of(document: &'a Document<'_>, file: &'a str) -> Result<Self, SimulatorFileError> {
        let line = |node: &Node<'_, '_>| document.text_pos_at(node.range().start).row;
        let root = document.root_element();
        let mut params = Self {
            file,
            values: BTreeMap::new(),
            line: line(&root),
        };
        if !root.has_tag_name("client_conf") {
            let name = root.tag_name().name();
            let reason = format!(
                "element \"{name}\" found, expected \"client_conf\": is this the simulator's \
                 client configuration?"
            );
            return failed(file, params.line, reason);
        }
        for node in root.children().filter(Node::is_element) {
            let at = line(&node);
            let name = node.attribute("name");
            let Some(name) = name.filter(|_| node.has_tag_name("param")) else {
                let reason = "only elements <param name=\"...\"> are allowed here";
                return failed(file, at, reason.to_owned());
            };
            let value = node.text().unwrap_or("").trim();
            if params.values.insert(name, (value, at)).is_some() {
                return failed(
                    file,
                    at,
                    format!("param \"{name}\" is duplicated: remove one"),
                );
            }
        }
        Ok(params)
    }

    fn simulator(&self) -> Result<SimulatorFile, SimulatorFileError> {
        let (name, line) = *self.values.get("scenarioLKC").unwrap_or(&("1", self.line));
        let Some(scenario) = Scenario::of_name(name) else {
            let names = Scenario::names();
            let reason = format!("scenarioLKC \"{name}\" is unknown, use {names}");
            return failed(self.file, line, reason);
        };
        let (_, line) = self.required("numberOfSessions")?;
        let Some(sessions @ 1..) = self.number("numberOfSessions")? else {
            return failed(
                self.file,
                line,
                "numberOfSessions: give at least 1".to_owned(),
            );
        };
        let pause_ms = self.number("delaySessionStartMillis")?;
        let duration_s = self.number("sessionDurationSeconds")?;
        Ok(SimulatorFile {
            urls: self.urls()?,
            adapter_set: self.required("adapterSetName")?.0.to_owned(),
            scenario,
            sessions,
            // Without a pause, the ramp is as fast as the server responds.
            ramp_per_s: pause_ms.map(|millis| 1000.0 / millis.max(1) as f64),
            duration: duration_s.map(Duration::from_secs),
            notes: self.notes(),
        })
    }

    fn urls(&self) -> Result<Vec<String>, SimulatorFileError> {
        let (protocol, line) = self.required("protocol")?;
        let scheme = match protocol {
            "ws://" | "http://" => "ws://",
            "wss://" | "https://" => "wss://",
            _ => {
                let reason = format!(
                    "protocol \"{protocol}\" is not supported, use ws://, wss://, http:// or \
                     https://"
                );
                return failed(self.file, line, reason);
            }
        };
        let (host, _) = self.required("host")?;
        let (_, line) = self.required("port")?;
        let Ok(base) = u16::try_from(self.number("port")?.unwrap_or(0)) else {
            return failed(
                self.file,
                line,
                "port is out of the range of ports".to_owned(),
            );
        };
        let more = self.number("serverPorts")?.unwrap_or(1).max(1) - 1;
        let Ok(last) = u16::try_from(u64::from(base).saturating_add(more)) else {
            return failed(
                self.file,
                line,
                "serverPorts is out of the range of ports".to_owned(),
            );
        };
        let url = |port| format!("{scheme}{host}:{port}");
        Ok((base..=last).map(url).collect())
    }

    fn required(&self, name: &str) -> Result<(&str, u32), SimulatorFileError> {
        match self.values.get(name) {
            Some((value, line)) if !value.is_empty() => Ok((value, *line)),
            _ => {
                let reason = format!("param \"{name}\" is missing: the simulator requires it, too");
                failed(self.file, self.line, reason)
            }
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, SimulatorFileError> {
        let Some((value, line)) = self.values.get(name) else {
            return Ok(None);
        };
        let invalid = format!("{name} \"{value}\" is not a whole number");
        value
            .parse()
            .map(Some)
            .or_else(|_| failed(self.file, *line, invalid))
    }

    fn notes(&self) -> Vec<String> {
        let is_ignored = |name: &str| HONOURED.split(' ').all(|honoured| honoured != name);
        let ignored = self.values.iter().filter(|(name, _)| is_ignored(name));
        let ignored = ignored.map(|(name, (_, line))| (*line, *name, reason_ignored(name)));
        let protocol = self.values.get("protocol");
        let http = protocol.filter(|(value, _)| value.starts_with("http"));
        let http = http.map(|(_, line)| (*line, "protocol", HTTP_NOTE));
        let mut notes: Vec<_> = ignored.chain(http).collect();
        notes.sort_unstable();
        let note = |(line, name, text)| format!("line {line}: {name}: {text}");
        notes.into_iter().map(note).collect()
    }
}

/// Returns the reason why a parameter has no effect.
fn reason_ignored(name: &str) -> &'static str {
    match name {
        "itemsPerSession" | "itemRandomExtraction" | "firstItemAvailable" | "lastItemAvailable" => {
            "ignored, each session has the one item of its scenario; keys are spread evenly, \
             see --seed"
        }
        "dataAdapterName" => {
            "ignored as the simulator does; the scenario decides, or --data-adapter"
        }
        "ignoreData" | "speedUpReading" => "ignored, every update is parsed and checked",
        _ if PROCESS_PARAMS.split(' ').any(|param| param == name) => {
            "ignored, one thread serves all sessions; see --engine local for more"
        }
        _ => "not a parameter of the simulator, ignored",
    }
}

const HTTP_NOTE: &str = "the sessions use WebSocket on the same port, and TLS with https://; HTTP \
    streaming is not simulated";
const HONOURED: &str = "protocol host port serverPorts adapterSetName scenarioLKC numberOfSessions \
    delaySessionStartMillis sessionDurationSeconds";
/// Parameters of the simulator's threads and sockets.
const PROCESS_PARAMS: &str = "minCreatePool nettyThreads listenerThreads selectorThreads \
    nioThreads useNio sessionCreationThreadPoolLength sendBufferSize receiveBufferSize localIP";
/// Far above the size of any such file.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"<?xml version="1.0"?>
<client_conf>
    <!-- As published. -->
    <param name="protocol">ws://</param>
    <param name="host">localhost</param>
    <param name="port">8080</param>
    <param name="scenarioLKC">3jp</param>
    <param name="adapterSetName">KafkaConnector</param>
    <param name="numberOfSessions">20000</param>
    <param name="itemsPerSession">1</param>
    <param name="sessionDurationSeconds">7200</param>
    <param name="delaySessionStartMillis">4</param>
    <param name="serverPorts">2</param>
    <param name="nettyThread">8</param>
</client_conf>
"#;

    #[test]
    fn published_file_is_parsed() {
        let file = SimulatorFile::parse(GOOD, "c.xml").unwrap();
        assert_eq!(file.urls, ["ws://localhost:8080", "ws://localhost:8081"]);
        assert_eq!(
            (file.scenario, file.sessions),
            (Scenario::ThreePatch, 20_000)
        );
        assert_eq!(file.adapter_set, "KafkaConnector");
        assert_eq!(file.ramp_per_s, Some(250.0));
        assert_eq!(file.duration, Some(Duration::from_secs(7200)));
        let [items, unknown] = &file.notes[..] else {
            panic!("{:?}", file.notes);
        };
        assert!(
            items.starts_with("line 10: itemsPerSession: ignored"),
            "{items}"
        );
        assert_eq!(
            unknown,
            "line 14: nettyThread: not a parameter of the simulator, ignored"
        );
    }

    #[test]
    fn http_protocols_are_websockets_with_a_note() {
        for (protocol, url) in [
            ("http://", "ws://localhost:8080"),
            ("https://", "wss://localhost:8080"),
        ] {
            let file = SimulatorFile::parse(&GOOD.replace("ws://", protocol), "c.xml").unwrap();
            assert_eq!(file.urls[0], url);
            assert!(
                file.notes[0].starts_with("line 4: protocol: the sessions use WebSocket"),
                "{:?}",
                file.notes
            );
        }
    }

    #[test]
    fn errors_have_their_line() {
        for (from, to, error) in [
            (
                "ws://",
                "ftp://",
                "c.xml:4: protocol \"ftp://\" is not supported, use ws://, wss://, http:// or \
                     https://",
            ),
            (
                "3jp",
                "4",
                "c.xml:7: scenarioLKC \"4\" is unknown, use 1, 2, 3, 3jp, 3td",
            ),
            (
                ">20000<",
                ">many<",
                "c.xml:9: numberOfSessions \"many\" is not a whole number",
            ),
            (
                ">20000<",
                ">0<",
                "c.xml:9: numberOfSessions: give at least 1",
            ),
            (
                ">8080<",
                ">80800<",
                "c.xml:6: port is out of the range of ports",
            ),
            (
                ">8080<",
                ">65535<",
                "c.xml:6: serverPorts is out of the range of ports",
            ),
            (
                "\"host\"",
                "\"port\"",
                "c.xml:6: param \"port\" is duplicated: remove one",
            ),
            (
                "\"host\"",
                "\"hosts\"",
                "c.xml:2: param \"host\" is missing: the simulator requires it, too",
            ),
            (
                "<param name=\"port\">8080</param>",
                "<parm name=\"port\">8080</parm>",
                "c.xml:6: only elements <param name=\"...\"> are allowed here",
            ),
            (
                "client_conf",
                "adapters_conf",
                "c.xml:2: element \"adapters_conf\" found, expected \"client_conf\": is this the \
                     simulator's client configuration?",
            ),
        ] {
            let text = GOOD.replace(from, to);
            let message = SimulatorFile::parse(&text, "c.xml")
                .unwrap_err()
                .to_string();
            assert_eq!(message, error);
        }
        let open = GOOD.replace("3jp</param>", "3jp</parm>");
        let message = SimulatorFile::parse(&open, "c.xml")
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("c.xml:7: not XML: "), "{message}");
        let declared = GOOD.replace(
            "<client_conf>",
            "<!DOCTYPE x [<!ENTITY a 'b'>]><client_conf>",
        );
        let message = SimulatorFile::parse(&declared, "c.xml")
            .unwrap_err()
            .to_string();
        assert!(message.contains("not XML"), "{message}");
        let absent = SimulatorFile::read(Path::new("/nonexistent/c.xml")).unwrap_err();
        assert!(
            absent.to_string().starts_with("/nonexistent/c.xml:1: "),
            "{absent}"
        );
    }
}
