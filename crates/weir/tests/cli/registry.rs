//! `weir gateway check` and `explain` with Avro, Protobuf and a real schema registry, as snapshots
//! of their output; `weir lab up` prints the authority of that registry.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use regex::Regex;
use weir_lab::derived_file::assert_derived;
use weir_lab::{Lab, LabOptions, RegistrySecurity};

use crate::support::{text, weir};

const AVRO: &str = r#"{"type": "record", "name": "Order", "fields": [
    {"name": "name", "type": "string"}, {"name": "price", "type": "long"}]}"#;
const PROTOBUF: &str = "syntax = \"proto3\";\nmessage Order { string name = 1; int64 price = 2; }";
/// Name `Ash` and price 42 in Avro and Protobuf.
const AVRO_ORDER: &[u8] = &[6, b'A', b's', b'h', 84];
const PROTOBUF_ORDER: &[u8] = &[10, 3, b'A', b's', b'h', 16, 42];
/// An id that the registry does not know.
const UNKNOWN_ID: i32 = 999_999;

/// A lab with a registry over TLS, started and stopped by the commands.
struct RegistryLab {
    /// Scratch files; the commands run here.
    scratch: tempfile::TempDir,
    url: String,
    authority: PathBuf,
    /// Password of the key stores.
    password: String,
    avro: i32,
    protobuf: i32,
}

impl RegistryLab {
    fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("lab");
        let mut up = weir(&["lab", "up", "--registry", "--registry-tls"]);
        up.args(["--heap-mb", "256", "--ready-timeout", "180s", "--dir"]);
        let mut started = Self {
            url: String::new(),
            authority: PathBuf::new(),
            password: String::new(),
            avro: 0,
            protobuf: 0,
            scratch,
        };
        let output = up.arg(&dir).output().unwrap();
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        started.url = value(&printed, "registry   ");
        started.authority = value(&printed, "registry CA ").into();
        started.register(&dir);
        started
    }

    /// Registers the schemas, with the lab that already runs.
    fn register(&mut self, dir: &Path) {
        let options = LabOptions {
            dir: Some(dir.to_owned()),
            heap_mb: 256,
            detached: true,
            registry: Some(RegistrySecurity {
                tls: true,
                basic_auth: false,
            }),
            ..LabOptions::default()
        };
        let lab = Lab::up(&options, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        assert!(lab.was_running());
        let files = lab.security_files().expect("certificates");
        files.store_password().clone_into(&mut self.password);
        let registry = lab.registry().expect("a registry");
        let register = |subject, kind, schema| registry.register(subject, kind, schema, &[]);
        self.avro = register("orders-value", "AVRO", AVRO).unwrap();
        self.protobuf = register("trades-value", "PROTOBUF", PROTOBUF).unwrap();
    }

    /// Runs a command in the scratch directory; returns its output without what changes.
    fn run(&self, words: &[&str]) -> String {
        let mut command = weir(words);
        let output = command.current_dir(&self.scratch).output().unwrap();
        let code = output.status.code().expect("it was not killed");
        let all = text(&output.stdout) + &text(&output.stderr);
        let all = all.replace(&self.scratch.path().display().to_string(), "DIR");
        let ports = Regex::new(r"(127\.0\.0\.1|localhost):\d+").unwrap();
        let all = ports.replace_all(&all, "$1:PORT");
        // The width of columns depends on the ports.
        let blanks = Regex::new(" {2,}").unwrap();
        let loops = Regex::new(r"\d+ event loops").unwrap();
        let all = loops.replace_all(&all, "N event loops");
        let all = blanks.replace_all(&all, "  ");
        let lines = all.lines().map(str::trim_end).collect::<Vec<_>>();
        format!(
            "$ weir {}\n{}\nexit code {code}\n\n",
            words.join(" "),
            lines.join("\n")
        )
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.scratch.path().join(name), content).unwrap();
    }

    /// Writes a configuration of one connection. `more` are parameters of its values.
    fn adapters(&self, name: &str, topic: &str, evaluator: &str, more: &[(&str, &str)]) {
        let mut parameters = vec![
            ("bootstrap.servers".to_owned(), "localhost:9092"),
            ("record.value.evaluator.type".to_owned(), evaluator),
        ];
        parameters.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), *value)),
        );
        let map = format!("map.{topic}.to");
        parameters.extend([
            (map, "item"),
            ("field.name".to_owned(), "#{VALUE.name}"),
            ("field.price".to_owned(), "#{VALUE.price}"),
        ]);
        let params = parameters
            .iter()
            .map(|(name, value)| format!("<param name=\"{name}\">{value}</param>\n"));
        self.write(
            &format!("{name}.xml"),
            &format!(
                "<adapters_conf id=\"Set\">\n<metadata_provider>\n<adapter_class>\
                 com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter\
                 </adapter_class>\n</metadata_provider>\n<data_provider name=\"Orders\">\n\
                 <adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter\
                 </adapter_class>\n{}</data_provider>\n</adapters_conf>\n",
                params.collect::<String>()
            ),
        );
    }

    fn record(&self, name: &str, topic: &str, value: &[u8]) {
        let value = BASE64_STANDARD.encode(value);
        self.write(
            &format!("{name}.json"),
            &format!(
                "{{\"topic\": \"{topic}\", \"key\": \"k\", \"value\": {{\"base64\": \"{value}\"}}}}"
            ),
        );
    }
}

impl Drop for RegistryLab {
    fn drop(&mut self) {
        let dir = self.scratch.path().join("lab");
        let _ = weir(&["lab", "down", "--dir"]).arg(dir).output();
    }
}

/// Returns the rest of the printed line that starts with a label.
fn value(printed: &str, label: &str) -> String {
    let mut lines = printed.lines().map(str::trim_start);
    let found = lines.find_map(|line| line.strip_prefix(label));
    found
        .unwrap_or_else(|| panic!("no {label}: {printed}"))
        .to_owned()
}

/// Returns a payload in the frame of a registry. `more` precedes the payload.
fn framed(id: i32, more: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[0], &id.to_be_bytes()[..], more, payload].concat()
}

#[test]
fn check_and_explain_show_schemas_and_their_errors() {
    let lab = RegistryLab::start();
    let authority = lab.authority.with_extension("jks");
    fs::copy(authority, lab.scratch.path().join("ca.jks")).unwrap();
    lab.write("ca.pem", &fs::read_to_string(&lab.authority).unwrap());
    lab.write("order.avsc", AVRO);
    write_configurations(&lab);
    lab.record("avro", "orders", &framed(lab.avro, &[], AVRO_ORDER));
    lab.record(
        "protobuf",
        "trades",
        &framed(lab.protobuf, &[0], PROTOBUF_ORDER),
    );
    lab.record("file", "orders", AVRO_ORDER);
    lab.record("unknown-id", "orders", &framed(UNKNOWN_ID, &[], AVRO_ORDER));
    lab.record(
        "damaged",
        "orders",
        &framed(lab.avro, &[], &AVRO_ORDER[..2]),
    );
    let (mut check, mut explain) = (String::new(), String::new());
    for name in CHECKED {
        let printed = lab.run(&["gateway", "check", "--adapters", &format!("{name}.xml")]);
        assert!(!printed.contains(&lab.password), "{printed}");
        let verdict = printed.trim_end().lines().rev().nth(1).unwrap_or_default();
        let is_valid = printed.ends_with("exit code 0\n\n");
        assert_eq!(verdict.ends_with("is valid"), is_valid, "{printed}");
        check.push_str(&printed);
    }
    for (name, record) in EXPLAINED {
        let (adapters, record) = (format!("{name}.xml"), format!("{record}.json"));
        let words = [
            "gateway",
            "explain",
            "--adapters",
            &adapters,
            "--record",
            &record,
        ];
        write!(explain, "{}", lab.run(&words)).unwrap();
    }
    let ids = Regex::new(r"\b(schema|id) \d+").unwrap();
    for (name, output) in [("check", &check), ("explain", &explain)] {
        let path = format!("crates/weir/tests/expected/{name}_with_schemas.txt");
        assert_derived(&path, &ids.replace_all(output, "$1 ID"));
    }
}

const CHECKED: [&str; 8] = [
    "avro",
    "protobuf",
    "file",
    "unknown-subject",
    "missing-file",
    "not-a-schema",
    "unreachable",
    "other-authority",
];
/// Configurations and records.
const EXPLAINED: [(&str, &str); 6] = [
    ("avro", "avro"),
    ("protobuf", "protobuf"),
    ("file", "file"),
    ("avro", "unknown-id"),
    ("avro", "damaged"),
    ("unreachable", "avro"),
];

fn write_configurations(lab: &RegistryLab) {
    const ENABLE: (&str, &str) = ("record.value.evaluator.schema.registry.enable", "true");
    const PATH: &str = "record.value.evaluator.schema.path";
    const URL: &str = "schema.registry.url";
    const STORE: &str = "schema.registry.confluent.encryption.truststore.path";
    const PASSWORD: &str = "schema.registry.confluent.encryption.truststore.password";
    let trust = [(STORE, "ca.jks"), (PASSWORD, &*lab.password)];
    let url = lab.url.as_str();
    let registered = [ENABLE, (URL, url), trust[0], trust[1]];
    lab.adapters("avro", "orders", "AVRO", &registered);
    lab.adapters("protobuf", "trades", "PROTOBUF", &registered);
    lab.adapters("unknown-subject", "others", "AVRO", &registered);
    lab.adapters("file", "orders", "AVRO", &[(PATH, "order.avsc")]);
    lab.adapters("missing-file", "orders", "AVRO", &[(PATH, "missing.avsc")]);
    lab.adapters("not-a-schema", "orders", "AVRO", &[(PATH, "ca.pem")]);
    // Nothing listens at this port of the lab's address.
    let closed = "https://127.0.0.1:1/apis/ccompat/v7";
    let unreachable = [ENABLE, (URL, closed), trust[0], trust[1]];
    lab.adapters("unreachable", "orders", "AVRO", &unreachable);
    // Without a trust store, the authorities of the system are trusted.
    lab.adapters("other-authority", "orders", "AVRO", &[ENABLE, (URL, url)]);
}
