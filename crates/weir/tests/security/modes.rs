//! The table of one security mode.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_kafka::{Admin, KafkaSettings, Producer, ProducerConfig};
use weir_lab::{ClientSettings, Lab, LabOptions, LabSecurity};

use crate::connect::{CONNECTORS, Connector};
use crate::mistakes::{MISTAKES, Mistake, causes};
use crate::{drivers, rotation};

/// Topic with one record, which all connectors use.
pub(crate) const TOPIC: &str = "secured";

/// Settings of a client, as a properties file.
pub(crate) struct ClientCase {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) config: PathBuf,
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) mistake: Mistake,
}

impl ClientCase {
    pub(crate) fn servers(&self) -> &str {
        let mut named = self.properties.iter();
        let servers = named.find(|(name, _)| name == "bootstrap.servers");
        servers.map_or("", |(_, value)| value)
    }

    /// Returns the settings, unless reading them finds the mistake.
    pub(crate) fn settings(&self) -> Result<KafkaSettings, String> {
        let read = KafkaSettings::read_properties(&self.config);
        let read = read.and_then(|read| KafkaSettings::from_properties(None, &read));
        read.map_err(|error| error.to_string())
    }
}

/// Result of a connector: connected, or the text of its error.
pub(crate) type Outcome = Result<(), String>;

/// Runs the table of a mode and reports all wrong cells.
pub(crate) fn check(security: LabSecurity) {
    let mut lab = start(security);
    let scratch = tempfile::tempdir().expect("a directory");
    let cases: Vec<ClientCase> = MISTAKES
        .iter()
        .filter_map(|mistake| case(&lab, scratch.path(), *mistake))
        .collect();
    fill(&cases[0]);
    let secrets: Vec<String> = lab
        .security_files()
        .map(|files| files.user_password().to_owned())
        .into_iter()
        .collect();
    let cells: Vec<(&Connector, &ClientCase)> = CONNECTORS
        .iter()
        .flat_map(|connector| cases.iter().map(move |case| (connector, case)))
        .collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((connector, case)) = cells.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if let Some(problem) = problem(connector, case, &secrets) {
                        let text = format!("{} with {}: {problem}", connector.name, case.name);
                        wrong.lock().expect("no panic").push(text);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{security}:\n{}", wrong.join("\n"));
    drivers::check(&lab, &cases[0].dir);
    if security == LabSecurity::Mtls {
        rotation::check(&mut lab, &cases[0]);
    }
    lab.down().expect("the broker ends");
}

/// Runs one cell and returns what is wrong with its outcome.
fn problem(connector: &Connector, case: &ClientCase, secrets: &[String]) -> Option<String> {
    let start = Instant::now();
    let outcome = (connector.connect)(case);
    let elapsed = start.elapsed();
    match (case.mistake, outcome) {
        (None, Ok(())) => None,
        (None, Err(text)) => Some(format!("did not connect: {text}")),
        (Some(_), Ok(())) => Some("connected".to_owned()),
        (Some(_), Err(text)) if text.contains("UNEXPECTED") => Some(text),
        (Some(_), Err(_)) if elapsed > FAILURE_TIME_MAX => {
            Some(format!("failed only after {} s", elapsed.as_secs()))
        }
        (Some(_), Err(text)) if secrets.iter().any(|secret| text.contains(secret)) => {
            Some(format!("its error contains a password: {text}"))
        }
        (Some(fault), Err(text)) => {
            let lower = text.to_lowercase();
            let is_named = causes(fault).iter().any(|cause| lower.contains(cause));
            (!is_named).then(|| format!("its error does not name the cause: {text}"))
        }
    }
}

fn start(security: LabSecurity) -> Lab {
    let options = LabOptions {
        security,
        test_listeners: true,
        heap_mb: 256,
        ready_timeout: Duration::from_secs(180),
        ..LabOptions::default()
    };
    Lab::up(&options, &mut |_| (), &AtomicBool::new(false)).expect("a broker")
}

fn case(lab: &Lab, scratch: &Path, mistake: Mistake) -> Option<ClientCase> {
    let settings = ClientSettings {
        fault: mistake,
        ..ClientSettings::default()
    };
    let properties = lab.settings(settings)?;
    let name = mistake.map_or_else(|| "Correct".to_owned(), |fault| format!("{fault:?}"));
    let dir = scratch.join(&name);
    fs::create_dir(&dir).expect("a directory");
    let config = dir.join("client.properties");
    write_properties(&config, &properties);
    Some(ClientCase {
        name,
        dir,
        config,
        properties,
        mistake,
    })
}

/// Writes a properties file.
pub(crate) fn write_properties(path: &Path, properties: &[(String, String)]) {
    let lines = properties.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('\n', "\\n");
        format!("{name}={value}\n")
    });
    fs::write(path, lines.collect::<String>()).expect("a file");
}

/// Creates the topic and writes a record, for those that read one.
fn fill(case: &ClientCase) {
    let kafka = case.settings().expect("valid settings");
    let admin = Admin::connect(&kafka, LIMIT).expect("the broker responds");
    admin.create_topic(TOPIC, 1, 1, &[]).expect("a topic");
    let config = ProducerConfig {
        kafka,
        ..ProducerConfig::default()
    };
    let producer = Producer::start(&config, Box::new(|_| ())).expect("a producer");
    producer
        .send(TOPIC, Some(0), Some(b"k"), Some(b"v"), &[], None, 1)
        .expect("queued");
    assert_eq!(producer.flush(LIMIT), 0, "the record is stored");
}

const WORKERS: usize = 4;
const LIMIT: Duration = Duration::from_secs(60);
/// A refused connection must be reported before the timeouts of the commands.
const FAILURE_TIME_MAX: Duration = Duration::from_secs(25);
