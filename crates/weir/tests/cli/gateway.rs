//! End-to-end tests of `weir gateway check` and `weir gateway explain`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use weir_kafka::{Admin, Producer, ProducerConfig};

use super::broker;

const DATA_CLASS: &str = "com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter";
const METADATA_CLASS: &str = "com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter";

/// Two connections to the same brokers. The first parameter is in line 7.
fn adapters(bootstrap: &str) -> String {
    format!(
        "<adapters_conf id=\"Set\">\n<metadata_provider>\n\
         <adapter_class>{METADATA_CLASS}</adapter_class>\n\
         <param name=\"logging.configuration.path\">log.properties</param></metadata_provider>\n\
         <data_provider name=\"Quotes\">\n<adapter_class>{DATA_CLASS}</adapter_class>\n\
         <param name=\"bootstrap.servers\">{bootstrap}</param>\n\
         <param name=\"record.consume.with.max.poll.records\">9</param>\n\
         <param name=\"value.evaluator.type\">JSON</param>\n\
         <param name=\"item-template.stock\">stock-#{{name=KEY,board=VALUE.board.id}}</param>\n\
         <param name=\"item-template.name\">name-#{{key=KEY}}</param>\n\
         <param name=\"map.stocks.to\">item-template.stock,item-template.name,all</param>\n\
         <param name=\"field.price\">#{{VALUE.price}}</param>\n\
         <param name=\"field.first\">#{{VALUE.bids[0]}}</param>\n\
         <param name=\"field.origin\">#{{HEADERS.origin}}</param>\n\
         </data_provider>\n\
         <data_provider name=\"Text\">\n<adapter_class>{DATA_CLASS}</adapter_class>\n\
         <param name=\"bootstrap.servers\">{bootstrap}</param>\n\
         <param name=\"map.lines.to\">lines</param>\n\
         <param name=\"field.value\">#{{VALUE}}</param>\n\
         </data_provider>\n</adapters_conf>\n"
    )
}

struct ScratchDir {
    dir: tempfile::TempDir,
}

impl ScratchDir {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .arg("gateway")
            .args(arguments)
            .current_dir(&self.dir);
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        printed(&self.weir(arguments).output().unwrap())
    }

    fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let (code, out, err) = self.run(arguments);
        let value = serde_json::from_str(&out);
        (
            code,
            value.unwrap_or_else(|_| panic!("no JSON: {out}{err}")),
        )
    }
}

fn printed(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let code = output.status.code().expect("it was not killed");
    (code, text(&output.stdout), text(&output.stderr))
}

/// Returns `true` if a line starts with the first word and contains the others in this order.
fn has_line(text: &str, words: &[&str]) -> bool {
    text.lines().any(|line| {
        let mut rest = line;
        words
            .iter()
            .enumerate()
            .all(|(i, word)| match rest.find(word) {
                Some(at) if i > 0 || rest[..at].trim().is_empty() => {
                    rest = &rest[at + word.len()..];
                    true
                }
                _ => false,
            })
    })
}

#[test]
fn check_reads_the_certificate() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    let fixture = |name: &str| {
        let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../weir-net/tests/tls");
        fs::read_to_string(tests.join(name)).unwrap()
    };
    directory.write("cert.pem", &fixture("server.pem"));
    directory.write("key.pem", &fixture("server.key"));
    let tls = "[tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\nlisten = \"0.0.0.0:8443\"\n";
    directory.write("g.toml", tls);
    let check = ["check", "--adapters", "a.xml", "--config", "g.toml"];
    let (code, out, err) = directory.run(&check);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(has_line(&out, &["clients", "wss://0.0.0.0:8443"]), "{out}");
    assert!(
        has_line(&out, &["certificate", "cert.pem", "until 2120-01-01"]),
        "{out}"
    );
    let (_, json) = directory.json(&[&check[..], &["--json"]].concat());
    assert_eq!(json["gateway"]["tls"]["listen"], "0.0.0.0:8443");
    directory.write("key.pem", &fixture("second.key"));
    let (code, out, _) = directory.run(&check);
    assert_eq!(code, 2);
    assert!(out.contains("tls: cert.pem, key.pem: "), "{out}");
}

#[test]
fn check_lists_status_of_every_parameter() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    let (code, out, err) = directory.run(&["check", "--adapters", "a.xml"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(has_line(&out, &["connection Quotes"]), "{out}");
    assert!(
        has_line(
            &out,
            &["7", "bootstrap.servers", "localhost:9092", "honoured"]
        ),
        "{out}"
    );
    assert!(
        has_line(
            &out,
            &["8", "record.consume.with.max.poll.records", "9", "honoured"]
        ),
        "{out}"
    );
    assert!(
        has_line(
            &out,
            &["9", "value.evaluator.type", "honoured", "see the notes"]
        ),
        "{out}"
    );
    assert!(has_line(&out, &["fields", "price, first, origin"]), "{out}");
    assert!(
        out.contains("a.xml:9: connection \"Quotes\": warning: parameter"),
        "{out}"
    );
    assert!(
        out.ends_with("ignored: the configuration is valid\n"),
        "{out}"
    );

    let (code, json) = directory.json(&["check", "--adapters", "a.xml", "--json"]);
    assert_eq!((code, &json["usable"]), (0, &Value::Bool(true)));
    let quotes = &json["connections"][0];
    assert_eq!(quotes["name"], "Quotes");
    assert_eq!(quotes["parameters"][1]["status"], "honoured");
    assert_eq!(quotes["parameters"][2]["line"], 9);
    assert_eq!(json["notes"][0]["severity"], "warning");
    assert_eq!(json["gateway"]["adapter_set"], "Set");
}

#[test]
fn check_reports_diffs_and_unread_server_settings() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    let conf = "<lightstreamer_conf>\n<http_server/>\n<default_diff_order>jsonpatch\
                </default_diff_order>\n\
         <max_delay_millis>30</max_delay_millis>\n</lightstreamer_conf>";
    directory.write("conf.xml", conf);
    let files = [
        "check",
        "--adapters",
        "a.xml",
        "--lightstreamer-conf",
        "conf.xml",
    ];
    let (code, out, _) = directory.run(&files);
    assert_eq!(code, 0, "{out}");
    let all = ["diffs", "json_patch (^P) from 50 bytes"];
    assert!(has_line(&out, &all), "{out}");
    assert!(
        out.contains("conf.xml:2: note: <http_server> is not read; see listen"),
        "{out}"
    );
    let rest = "conf.xml:4: note: <max_delay_millis> is not read: only diff settings are supported";
    assert!(out.contains(rest), "{out}");

    directory.write("own.toml", "[diffs.connection.Quotes]\norder = []\n");
    let (code, json) =
        directory.json(&[files.as_slice(), &["--config", "own.toml", "--json"]].concat());
    assert_eq!(
        (code, &json["connections"][0]["diffs"]),
        (0, &Value::from("none"))
    );
    directory.write("own.toml", "[diffs.connection.Quote]\n");
    let (code, out, _) = directory.run(&[files.as_slice(), &["--config", "own.toml"]].concat());
    assert_eq!(code, 2);
    assert!(
        out.contains("diffs.connection.Quote: no such connection; connections: Quotes"),
        "{out}"
    );
    directory.write(
        "conf.xml",
        "<lightstreamer_conf><default_diff_order>json</default_diff_order></lightstreamer_conf>",
    );
    let (code, out, _) = directory.run(&files);
    assert_eq!(code, 2);
    assert!(
        out.contains("conf.xml:1: <default_diff_order> = \"json\": list jsonpatch"),
        "{out}"
    );
}

#[test]
fn check_lists_all_errors_and_exits_with_2() {
    let directory = ScratchDir::new();
    let xml = adapters("localhost:9092")
        .replace(">JSON<", ">AVRO<")
        .replace("#{VALUE}", "VALUE")
        .replace("map.lines.to", "map.lines");
    directory.write("a.xml", &xml);
    let (code, out, _) = directory.run(&["check", "--adapters", "a.xml"]);
    assert_eq!(code, 2);
    let avro = "[record.value.evaluator.type] = \"AVRO\" needs a schema: specify a valid file path";
    assert!(
        has_line(&out, &["a.xml:5: connection \"Quotes\":", avro]),
        "{out}"
    );
    assert!(
        has_line(
            &out,
            &["a.xml:17: connection \"Text\": specify at least one"]
        ),
        "{out}"
    );
    assert!(
        out.contains("invalid expression; write #{EXPRESSION}"),
        "{out}"
    );
    assert!(out.contains("the configuration is invalid"), "{out}");

    let (code, json) = directory.json(&["check", "--adapters", "a.xml", "--json"]);
    assert_eq!((code, &json["usable"]), (2, &Value::Bool(false)));
    assert_eq!(json["errors"][0]["line"], 5);
    assert_eq!(json["connections"][1]["parameters"][2]["status"], "refused");

    directory.write("broken.xml", "<adapters_conf");
    let (code, out, _) = directory.run(&["check", "--adapters", "broken.xml"]);
    assert_eq!(code, 2);
    assert!(out.contains("broken.xml:1: not well-formed XML"), "{out}");
    let (code, out, _) = directory.run(&["check", "--adapters", "none.xml"]);
    assert_eq!(code, 2);
    assert!(out.contains("none.xml: cannot read the file"), "{out}");
}

#[test]
fn check_reports_errors_of_all_files_as_json() {
    let directory = ScratchDir::new();
    let xml = adapters("$env.WEIR_TEST_A")
        .replace("id=\"Set\"", "id=\"\"")
        .replace(">9<", ">0<");
    directory.write("a.xml", &xml);
    directory.write(
        "g.toml",
        "listen = \"127.0.0.1:0\"\nevent_loops = \"two\"\n",
    );
    let check = [
        "check",
        "--adapters",
        "a.xml",
        "--config",
        "g.toml",
        "--json",
    ];
    let (code, json) = directory.json(&check);
    assert_eq!((code, &json["usable"]), (2, &Value::Bool(false)));
    let errors = json["errors"].as_array().unwrap();
    let places: Vec<_> = errors
        .iter()
        .map(|error| (error["file"].as_str().unwrap(), error["line"].as_u64()))
        .collect();
    assert_eq!(
        places,
        [
            ("g.toml", Some(2)),
            ("a.xml", Some(1)),
            ("a.xml", Some(7)),
            ("a.xml", Some(8)),
            ("a.xml", Some(19)),
        ],
        "{json:#}"
    );
    let (code, out, err) = directory.run(&["run", "--adapters", "a.xml", "--config", "g.toml"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err.lines().count(), errors.len(), "{err}");
    let (code, json) = directory.json(&["check", "--adapters", "none.xml", "--json"]);
    assert_eq!(
        (code, &json["errors"][0]["file"]),
        (2, &Value::from("none.xml"))
    );
}

#[test]
fn check_strict_rejects_unknown_parameters() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    let (code, out, _) = directory.run(&["check", "--adapters", "a.xml", "--strict"]);
    assert_eq!(code, 2);
    assert!(
        out.contains("[value.evaluator.type] is not known to connector 1.5"),
        "{out}"
    );
}

#[test]
fn check_shows_20_parameters_per_kind() {
    let directory = ScratchDir::new();
    let fields: String = (0..1000)
        .map(|i| format!("<param name=\" field.names{i}\">#{{VALUE.names[{i}]}}</param>\n"))
        .collect();
    let xml =
        adapters("localhost:9092").replacen("</data_provider>", &(fields + "</data_provider>"), 1);
    directory.write("a.xml", &xml);
    let (code, out, _) = directory.run(&["check", "--adapters", "a.xml"]);
    assert_eq!(code, 0);
    assert!(out.lines().count() < 80, "{out}");
    assert!(out.contains("--all shows them"), "{out}");
    let (_, all, _) = directory.run(&["check", "--adapters", "a.xml", "--all"]);
    assert!(
        has_line(&all, &["1013", "field.names997", "honoured"]),
        "{all}"
    );
}

const RECORD: &str = r#"{
    "topic": "stocks", "partition": 3, "offset": 12, "timestamp": 1700000000000, "key": "Apple",
    "value": {"json": {"price": 1.50, "board": {"id": "NYSE"}, "bids": []}},
    "headers": [["origin", "till 7"]]
}"#;

fn explain(directory: &ScratchDir, more: &[&str]) -> (i32, String, String) {
    directory.run(&[&["explain", "--adapters", "a.xml"], more].concat())
}

#[test]
fn explain_shows_record_from_file() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    directory.write("r.json", &RECORD.replace("\"bids\": []", "\"bids\": [7]"));
    let (code, out, err) = explain(&directory, &["--record", "r.json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        has_line(
            &out,
            &["record stocks partition 3 offset 12 timestamp 1700000000000"]
        ),
        "{out}"
    );
    let item = "stock-[board=NYSE,name=Apple]";
    assert!(
        has_line(
            &out,
            &[
                "template stock",
                "stock-#{board=VALUE.board.id,name=KEY}",
                item
            ]
        ),
        "{out}"
    );
    assert!(has_line(&out, &["simple item", "all", "all"]), "{out}");
    assert!(has_line(&out, &["price", "VALUE.price", "1.5"]), "{out}");
    assert!(
        has_line(&out, &["origin", "HEADERS.origin", "till 7"]),
        "{out}"
    );
    assert!(
        has_line(
            &out,
            &[
                "delivered to the subscribers of",
                item,
                "name-[key=Apple], all"
            ]
        ),
        "{out}"
    );
    assert!(
        !out.contains("connection Text"),
        "it does not map the topic: {out}"
    );
}

#[test]
fn explain_preserves_json_of_record_files() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    let json = r#"{"z":1,"a":123456789012345678901234567890, "f":1.10, "far":1e400}"#;
    let headers = r#"{"z":"1","b":{"base64":"/wAb"}}"#;
    let record = format!(r#"{{"topic":"lines","value":{{"json":{json}}},"headers":{headers}}}"#);
    directory.write("r.json", &record);
    let (code, out, err) = explain(&directory, &["--record", "r.json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(has_line(&out, &["value", "VALUE", json]), "{out}");
    let headers = out
        .lines()
        .filter_map(|line| line.trim().strip_prefix("header "));
    let headers: Vec<_> = headers.collect();
    assert_eq!(headers, ["z = 1", "b = \\xFF\\x00\\x1B (3 bytes, binary)"]);
    assert!(
        !out.contains(|c: char| c.is_control() && c != '\n'),
        "{out:?}"
    );
    let (_, out, _) = explain(&directory, &["--record", "r.json", "--json"]);
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["record"]["value"], json);
    assert_eq!(out["record"]["headers"][1][1]["base64"], "/wAb");
}

#[test]
fn explain_reads_1000_levels_of_a_record_file() {
    let directory = ScratchDir::new();
    let xml = adapters("localhost:9092")
        .replace(
            "#{VALUE}",
            "#{VALUE}</param><param name=\"record.value.evaluator.type\">JSON",
        )
        .replace(
            "<param name=\"map.lines.to\">",
            "<param name=\"fields.map.non.scalar.values.enable\">true</param>\n\
             <param name=\"map.lines.to\">",
        );
    directory.write("a.xml", &xml);
    for (depth, delivered) in [(999, 0), (1000, 0), (1001, 1)] {
        let rows = [
            ("[".repeat(depth), "]".repeat(depth)),
            ("{\"a\":".repeat(depth) + "1", "}".repeat(depth)),
        ];
        for (open, close) in rows {
            let record = format!(r#"{{"topic":"lines","value":{{"json":{open}{close}}}}}"#);
            directory.write("r.json", &record);
            let (code, out, err) = explain(&directory, &["--record", "r.json"]);
            assert_eq!(code, delivered, "{depth}: {err}");
            assert_eq!(out.contains("more than 1000 levels"), delivered == 1);
        }
    }
}

#[test]
fn explain_reports_failed_field_and_consequence() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    directory.write("r.json", RECORD);
    let (code, out, _) = explain(&directory, &["--record", "r.json"]);
    assert_eq!(code, 1);
    assert!(
        has_line(
            &out,
            &[
                "first",
                "VALUE.bids[0]",
                "error: field not found at index [0]"
            ]
        ),
        "{out}"
    );
    assert!(
        has_line(
            &out,
            &["not delivered, the record is skipped: cannot extract field \"first\""]
        ),
        "{out}"
    );
    // No client subscribed to that field.
    let (code, out, _) = explain(
        &directory,
        &["--record", "r.json", "--fields", "price origin"],
    );
    assert_eq!(code, 0, "{out}");
}

#[test]
fn explain_reports_why_item_does_not_match() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    directory.write("r.json", RECORD);
    let item = |item| {
        explain(
            &directory,
            &["--record", "r.json", "--fields", "price", "--item", item],
        )
    };
    let (code, out, _) = item("stock-[name=Apple,board=NYSE]");
    assert_eq!(code, 0);
    assert!(
        has_line(&out, &["delivered to stock-[board=NYSE,name=Apple]"]),
        "{out}"
    );
    let (code, out, _) = item("stock-[name=Apple,board=XETRA]");
    assert_eq!(code, 1);
    let why = "template stock: board is \"NYSE\" in the record, not \"XETRA\"";
    assert!(has_line(&out, &[why]), "{out}");
    assert!(
        has_line(&out, &["not delivered to stock-[board=XETRA,name=Apple]"]),
        "{out}"
    );
    let (code, out, _) = item("name-[kye=Apple]");
    assert_eq!(code, 1);
    assert!(out.contains("subscribers receive nothing"), "{out}");
    assert!(
        out.contains("its items have the parameters key, this one has the parameters kye"),
        "{out}"
    );
    let (code, _, err) = item("name-[key=]");
    assert_eq!(code, 2);
    assert!(
        err.contains("--item \"name-[key=]\": Invalid Item"),
        "{err}"
    );
}

#[test]
fn explain_reads_standard_input_and_prints_json() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    let arguments = ["explain", "--adapters", "a.xml", "--record", "-", "--json"];
    let mut command = directory.weir(&arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let record = br#"{"topic":"stocks","key":{"base64":"QXBwbGU="},"value":"not JSON"}"#;
    child.stdin.take().unwrap().write_all(record).unwrap();
    let (code, out, err) = printed(&child.wait_with_output().unwrap());
    assert_eq!(code, 1, "{err}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["record"]["key"], "Apple");
    let quotes = &json["connections"][0];
    assert_eq!(quotes["delivered"], false);
    assert_eq!(quotes["error"]["deserialization"], true);
    assert_eq!(quotes["sources"][1]["item"], "name-[key=Apple]");
    let board = &quotes["sources"][0]["parameters"][0];
    assert_eq!(board["expression"], "VALUE.board.id");
    assert_eq!(
        board["error"],
        "the value is not JSON: expected a value at byte 0"
    );
}

#[test]
fn explain_rejects_invalid_input() {
    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters("localhost:9092"));
    let rows = [
        (r#"{"key":"x"}"#, "needs \"topic\""),
        (r#"{"topic":"stocks","kee":"x"}"#, "unknown field `kee`"),
        (
            r#"{"topic":"stocks","value":5}"#,
            "must be a string, null, {\"base64\"",
        ),
        (
            r#"{"topic":"stocks","value":{"base64":"%"}}"#,
            "invalid base64",
        ),
        (
            r#"{"topic":"stocks","headers":[["a"]]}"#,
            "each header must be",
        ),
        ("[", "invalid record"),
    ];
    for (record, expected) in rows {
        directory.write("r.json", record);
        let (code, _, err) = explain(&directory, &["--record", "r.json"]);
        assert_eq!(code, 2, "{record}");
        assert!(err.contains(expected), "{record}: {err}");
    }
    let (code, out, _) = {
        directory.write("r.json", r#"{"topic":"other"}"#);
        explain(&directory, &["--record", "r.json"])
    };
    assert_eq!(code, 1);
    assert!(
        out.contains("topic other is not mapped; mapped topics: stocks"),
        "{out}"
    );
    assert!(
        out.contains("topic other is not mapped; mapped topics: lines"),
        "{out}"
    );
    let (code, _, err) = explain(&directory, &["--record", "r.json", "--connection", "Nope"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("--connection: unknown connection \"Nope\"; use Quotes, Text"),
        "{err}"
    );
    let (code, _, _) = explain(&directory, &[]);
    assert_eq!(code, 2);
}

#[test]
fn explain_reads_records_of_a_running_cluster() {
    let bootstrap = broker();
    let timeout = Duration::from_secs(60);
    let admin = Admin::connect(&weir_kafka::KafkaSettings::plaintext(&bootstrap), timeout).unwrap();
    admin.create_topic("stocks", 2, 1, &[]).unwrap();
    admin.create_topic("lines", 1, 1, &[]).unwrap();
    let config = ProducerConfig {
        kafka: weir_kafka::KafkaSettings::plaintext(&bootstrap),
        ..ProducerConfig::default()
    };
    let producer = Producer::start(&config, Box::new(|_| {})).unwrap();
    let send = |topic, partition, key: &str, value: &str, time| {
        let headers: &[(&str, &[u8])] = &[("origin", b"till 7")];
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        producer
            .send(topic, Some(partition), key, value, headers, Some(time), 0)
            .unwrap();
    };
    let value = r#"{"price":1.5,"board":{"id":"NYSE"},"bids":[1]}"#;
    send("stocks", 0, "old", value, 1_000);
    send("stocks", 1, "Apple", value, 3_000);
    send("stocks", 0, "Pear", value, 2_000);
    send("lines", 0, "", "first\u{1b}[31m", 1_000);
    assert_eq!(producer.flush(timeout), 0);

    let directory = ScratchDir::new();
    directory.write("a.xml", &adapters(&bootstrap));
    let live = |more: &[&str]| explain(&directory, &[&["--topic", "stocks"], more].concat());
    let (code, out, err) = live(&["--last", "--item", "name-[key=Apple]"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        has_line(&out, &["record stocks partition 1 offset 0 timestamp 3000"]),
        "{out}"
    );
    assert!(has_line(&out, &["delivered to name-[key=Apple]"]), "{out}");
    let (code, out, err) = live(&["--last", "--item", "name-[key=old]"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.starts_with("3 records read; the newest record for name-[key=old] is\n"),
        "{out}"
    );
    assert!(
        has_line(&out, &["record stocks partition 0 offset 0 timestamp 1000"]),
        "{out}"
    );
    let (code, out, _) = live(&["--item", "name-[key=none]"]);
    assert_eq!(code, 1);
    assert!(
        out.starts_with("3 records read, none of them for name-[key=none]; the newest record is\n"),
        "{out}"
    );
    assert!(
        has_line(&out, &["record stocks partition 1 offset 0 timestamp 3000"]),
        "{out}"
    );
    let few = ["--item", "name-[key=old]", "--look-back", "2", "--json"];
    let (code, out, _) = live(&few);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &json["looked_back"]["records"]),
        (1, &Value::from(2))
    );
    assert_eq!(json["looked_back"]["reached"], false);
    let (_, out, _) = live(&["--partition", "0"]);
    assert!(
        has_line(&out, &["record stocks partition 0 offset 1 timestamp 2000"]),
        "{out}"
    );
    let (_, out, _) = live(&[
        "--partition",
        "0",
        "--offset",
        "0",
        "--connection",
        "Quotes",
    ]);
    assert!(
        has_line(&out, &["template name", "name-[key=old]"]),
        "{out}"
    );
    let (code, out, _) = explain(&directory, &["--topic", "lines", "--offset", "0"]);
    assert_eq!(code, 0);
    assert!(
        out.contains("first\\u{1b}[31m") && !out.contains('\u{1b}'),
        "{out}"
    );

    let refusals: [(&[&str], &str); 4] = [
        (
            &["--offset", "0"],
            "has 2 partitions: specify the partition",
        ),
        (&["--partition", "7"], "has no partition 7; it has 2"),
        (
            &["--partition", "1", "--offset", "5"],
            "offset 5 is out of range: partition 1",
        ),
        (
            &["--connection", "Text", "--partition", "9"],
            "has no partition 9",
        ),
    ];
    for (arguments, expected) in refusals {
        let (code, _, err) = live(arguments);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(expected), "{err}");
    }
    let missing = explain(&directory, &["--topic", "nope", "--connection", "Quotes"]);
    assert!(
        missing.2.contains("topic \"nope\" does not exist"),
        "{}",
        missing.2
    );
    check_topic_patterns(&directory, &bootstrap);
    let closed = format!("127.0.0.1:{}", weir_lab::ports::free_port().unwrap());
    directory.write("a.xml", &adapters(&closed));
    let (code, _, err) = live(&["--timeout", "1s"]);
    assert_eq!(code, 3, "{err}");
}

/// Checks that `check` and `explain` list the topics that match a pattern.
fn check_topic_patterns(directory: &ScratchDir, bootstrap: &str) {
    let parameters = format!(
        "[connection.P]\nbootstrap.servers = \"{bootstrap}\"\nmap.regex.enable = true\n\
         field.value = \"#{{VALUE}}\"\nmap.\"stock.\".to = \"a\"\n\
         map.\"line[a-z]|stocks\".to = \"b\"\nmap.none.to = \"c\"\n"
    );
    directory.write("p.toml", &parameters);
    let (code, out, err) = directory.run(&["check", "--config", "p.toml"]);
    assert_eq!(code, 0, "{out}{err}");
    let expected = [
        "pattern stock. matches stocks",
        "pattern line[a-z]|stocks matches 2 topics: lines, stocks",
        "pattern none matches no topic",
    ];
    for line in expected {
        assert!(has_line(&out, &[line]), "{line}: {out}");
    }
    let (_, out, _) = directory.run(&["check", "--config", "p.toml", "--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    let patterns = json["topic_patterns"][0]["patterns"].as_array().unwrap();
    let of_two = |pattern: &&Value| pattern["pattern"] == "line[a-z]|stocks";
    let topics = &patterns.iter().find(of_two).unwrap()["topics"];
    assert_eq!(*topics, serde_json::json!(["lines", "stocks"]));
    let (_, out, _) = directory.run(&["check", "--config", "p.toml", "--offline"]);
    assert!(!out.contains("matches"), "{out}");

    let arguments = ["explain", "--config", "p.toml", "--topic", "stocks"];
    let (code, out, err) = directory.run(&arguments);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        has_line(&out, &["topic stocks matches line[a-z]|stocks, stock."]),
        "{out}"
    );
    for line in expected {
        assert!(has_line(&out, &[line]), "{line}: {out}");
    }
}
