//! Ways to connect: the commands, each of which returns its error.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_drivers::ClientFileContent;
use weir_kafka::Admin;
use weir_lab::ClientFault;

use crate::modes::{ClientCase, Outcome, TOPIC};
use crate::support::{Process, text, weir};

/// A way to connect.
pub(crate) struct Connector {
    pub(crate) name: &'static str,
    pub(crate) connect: fn(&ClientCase) -> Outcome,
}

pub(crate) const CONNECTORS: &[Connector] = &[
    connector("topic administration", administer),
    connector("load produce", produce),
    connector("load consume", consume),
    connector("load consume, librdkafka", consume_librdkafka),
    connector("gateway explain", explain),
    connector("gateway run", ingest),
    connector("gateway run, librdkafka", ingest_librdkafka),
    connector("driver librdkafka", drive),
    connector("bench run", bench_run),
    connector("bench find-max", find_max),
];

const fn connector(name: &'static str, connect: fn(&ClientCase) -> Outcome) -> Connector {
    Connector { name, connect }
}

fn administer(case: &ClientCase) -> Outcome {
    let admin = Admin::connect(&case.settings()?, Duration::from_secs(10));
    let exists = admin.and_then(|admin| admin.topic_exists(TOPIC));
    match exists.map_err(|error| error.to_string())? {
        true => Ok(()),
        false => Err("the topic is missing".to_owned()),
    }
}

/// Runs a command with the settings. An error must end with the exit code for refused connections.
fn run(case: &ClientCase, words: &str) -> Outcome {
    let mut command = weir(&words.split_whitespace().collect::<Vec<_>>());
    let output = command.arg("--kafka-config").arg(&case.config).output();
    let output = output.expect("the command starts");
    let errors = text(&output.stderr);
    match output.status.code() {
        Some(0) => Ok(()),
        Some(3) => Err(errors),
        // An expired certificate of the client is found when it is read.
        Some(2) if case.mistake == Some(ClientFault::ExpiredClient) => Err(errors),
        code => Err(format!("UNEXPECTED exit code {code:?}: {errors}")),
    }
}

fn produce(case: &ClientCase) -> Outcome {
    run(
        case,
        &format!("load produce --topic {TOPIC} --count 3 --rate 100 --max-lag 10s"),
    )
}

fn consume(case: &ClientCase) -> Outcome {
    run(
        case,
        &format!("load consume --topic {TOPIC} --from-start --records 1"),
    )
}

fn consume_librdkafka(case: &ClientCase) -> Outcome {
    let client = "--consumers 1 --client-library librdkafka --duration 200ms";
    run(case, &format!("load consume --topic {TOPIC} {client}"))
}

pub(crate) fn adapters(case: &ClientCase) -> String {
    format!(
        "<adapters_conf id=\"Secured\"><metadata_provider><adapter_class>\
         com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>\
         </metadata_provider><data_provider name=\"Secured\"><adapter_class>\
         com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>\
         <param name=\"bootstrap.servers\">{}</param>\
         <param name=\"map.{TOPIC}.to\">item</param>\
         <param name=\"field.value\">#{{VALUE}}</param></data_provider></adapters_conf>",
        case.servers()
    )
}

fn explain(case: &ClientCase) -> Outcome {
    let file = case.dir.join("explain.xml");
    fs::write(&file, adapters(case)).expect("a file");
    let file = file.display();
    run(
        case,
        &format!("gateway explain --adapters {file} --topic {TOPIC} --last --timeout 20s"),
    )
}

fn ingest(case: &ClientCase) -> Outcome {
    run_gateway(case, "auto")
}

fn ingest_librdkafka(case: &ClientCase) -> Outcome {
    run_gateway(case, "librdkafka")
}

/// Starts a gateway. A refused one keeps running, is unhealthy and counts the failures. Its log
/// names the client that reads.
fn run_gateway(case: &ClientCase, reader: &str) -> Outcome {
    let file = case.dir.join("gateway.xml");
    fs::write(&file, adapters(case)).expect("a file");
    let log = case.dir.join("gateway.log");
    let admin = weir_lab::ports::free_ports([127, 0, 0, 1].into(), 1).expect("a port")[0];
    let mut command = weir(&["gateway", "run", "--listen", "127.0.0.1:0", "--admin"]);
    command.arg(format!("127.0.0.1:{admin}"));
    command.arg("--adapters").arg(&file);
    command.arg("--kafka-config").arg(&case.config);
    command.arg("--kafka-reader").arg(reader);
    let used = match reader {
        "auto" => "reader=lean",
        _ => "reader=librdkafka",
    };
    let written = fs::File::create(&log).expect("a file");
    command.stdout(Stdio::null()).stderr(written);
    let mut gateway = Process::spawn(&mut command);
    let deadline = Instant::now() + GATEWAY_LIMIT;
    while Instant::now() < deadline {
        if let Some(status) = gateway.try_wait().expect("a child") {
            let log = fs::read_to_string(&log).unwrap_or_default();
            return match (status.code(), case.mistake) {
                (Some(2), Some(ClientFault::ExpiredClient)) => Err(log),
                _ => Err(format!("UNEXPECTED end of the gateway, {status}: {log}")),
            };
        }
        let is_named = || fs::read_to_string(&log).is_ok_and(|log| log.contains(used));
        let health = get(admin, "/health/ready");
        if health.is_some_and(|response| response.contains(" 200 ")) && is_named() {
            return Ok(());
        }
        let metrics = get(admin, "/metrics").unwrap_or_default();
        if metrics.lines().any(is_refusal) {
            // The warning follows at the next status report.
            let log = fs::read_to_string(&log).unwrap_or_default();
            if log.contains("brokers refused the connection") {
                return Err(log);
            }
        }
        std::thread::sleep(LOOK);
    }
    let log = fs::read_to_string(&log).unwrap_or_default();
    Err(format!("UNEXPECTED: neither ready nor refused: {log}"))
}

fn is_refusal(line: &str) -> bool {
    let counts = ["login_failures_total", "tls_failures_total"];
    let is_count = counts.iter().any(|count| line.contains(count));
    is_count && !line.starts_with('#') && !line.ends_with(" 0")
}

pub(crate) fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}

/// Drives the built-in driver, which reads the settings from the client file.
fn drive(case: &ClientCase) -> Outcome {
    let settings = case.settings()?;
    let token = ClientFileContent::token(&settings).map_err(|error| format!("token: {error}"))?;
    let token_file = token.map(|token| {
        let file = case.dir.join("driver.token");
        fs::write(&file, token).expect("a file");
        file
    });
    let content = ClientFileContent::of(&settings, token_file.as_deref());
    let content = content.expect("librdkafka's properties");
    let file = case.dir.join("driver.json");
    fs::write(&file, content.to_json()).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .args(["bench", "driver"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let log = fs::File::create(case.dir.join("driver.log")).expect("a file");
    let mut driver = Process::spawn(command.stderr(log));
    let mut commands = driver.stdin.take().expect("a pipe");
    let mut responses = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
    let mut ask = |command: Value| -> Value {
        writeln!(commands, "{command}").expect("the driver runs");
        let line = responses.next().expect("a response").expect("text");
        serde_json::from_str(&line).expect("JSON")
    };
    let configured = ask(json!({
        "id": 1, "op": "configure", "bootstrap": case.servers(), "profile": "test",
        "client_file": file, "settings": {},
    }));
    assert_eq!(configured["client_file"], true, "{configured}");
    let produced = ask(json!({
        "id": 2, "timeout_ms": 5000, "op": "produce", "topic": TOPIC, "len": 8, "count": 1,
        "seed": 1, "state": "cold", "per_record": false,
    }));
    match produced["ok"] == true {
        true => Ok(()),
        false => Err(produced["error"].to_string()),
    }
}

fn bench_run(case: &ClientCase) -> Outcome {
    let out = case.dir.join("sweep");
    let sizes = "--record-sizes 100 --target-rates 50 --fetch-sizes 100000";
    let times = "--warm-up 100ms --hold 500ms --repetitions 1";
    let outcome = run(
        case,
        &format!(
            "bench run broker-sweep --quick {sizes} {times} --out {}",
            out.display()
        ),
    );
    without_secrets(case, &out).and(outcome)
}

fn find_max(case: &ClientCase) -> Outcome {
    let out = case.dir.join("find-max");
    let load = "--architecture standalone --clients 1 --start-load 20 --max-load 20";
    let times = "--warm-up 200ms --hold 500ms";
    let outcome = run(
        case,
        &format!(
            "bench find-max keyed --quick {load} {times} --out {}",
            out.display()
        ),
    );
    without_secrets(case, &out).and(outcome)
}

/// Checks that no file of a run contains the value of a secret property.
fn without_secrets(case: &ClientCase, dir: &std::path::Path) -> Outcome {
    let secret = |(name, _): &&(String, String)| weir_load::kafka::is_secret(name);
    let secrets: Vec<&str> = case
        .properties
        .iter()
        .filter(secret)
        .map(|(_, it)| &**it)
        .collect();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let content = text(&fs::read(&path).unwrap_or_default());
            if secrets.iter().any(|secret| content.contains(secret)) {
                return Err(format!("UNEXPECTED secret in {}", path.display()));
            }
        }
    }
    Ok(())
}

const GATEWAY_LIMIT: Duration = Duration::from_secs(20);
/// Interval at which a condition is polled.
const LOOK: Duration = Duration::from_millis(50);
