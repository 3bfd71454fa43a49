//! Labs in each security mode: Kafka's own tools and other clients connect with the printed
//! settings, and fail with deliberately wrong ones.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_lab::{
    ClientFault, ClientSettings, KAFKA_VERSION, KafkaTools, Lab, LabOptions, LabSecurity, Registry,
    RegistryOptions, RegistrySecurity, StoreFormat, TokenRequest,
};

fn up(options: LabOptions) -> Lab {
    let options = LabOptions {
        heap_mb: 256,
        ready_timeout: Duration::from_secs(180),
        jvm_arguments: vec!["-XX:TieredStopAtLevel=1".to_owned()],
        ..options
    };
    Lab::up(&options, &mut |_| (), &AtomicBool::new(false)).unwrap()
}

fn secured(security: LabSecurity) -> Lab {
    up(LabOptions {
        security,
        test_listeners: security.uses_tls(),
        ..LabOptions::default()
    })
}

/// Returns the command of a Java class with the libraries of Kafka's tools and `options`.
fn java(lab: &Lab, class: &str, classes: Option<&Path>, options: &[&str]) -> Command {
    let stop = AtomicBool::new(false);
    let tools = KafkaTools::find(KAFKA_VERSION, &mut |_| (), &stop).unwrap();
    let tool = tools.command(class);
    let mut command = Command::new(tool.get_program());
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    command.args(options);
    if let Some(endpoint) = lab.token_endpoint() {
        let property = "org.apache.kafka.sasl.oauthbearer.allowed.urls";
        command.arg(format!("-D{property}={endpoint}"));
    }
    for argument in tool.get_args() {
        let argument = argument.to_str().unwrap();
        match classes {
            // The tools' own choice of the garbage collector would conflict.
            _ if argument == "-XX:+UseG1GC" => &mut command,
            Some(dir) if argument.ends_with("/*") => {
                command.arg(format!("{argument}:{}", dir.display()))
            }
            _ => command.arg(argument),
        };
    }
    command
}

/// Runs one of Kafka's tools with the settings in a file.
fn tool(lab: &Lab, class: &str, config: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = java(lab, class, None, &[])
        .args(["--bootstrap-server", &lab.bootstrap(), "--command-config"])
        .arg(config)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn success(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text} {errors}");
    text
}

/// Creates a topic, produces and consumes with Kafka's console tools and the written settings.
#[track_caller]
fn console_tools_work(lab: &Lab) {
    let config = lab.client_config();
    let topics = "org.apache.kafka.tools.TopicCommand";
    success(&tool(
        lab,
        topics,
        &config,
        &["--create", "--topic", "t"],
        "",
    ));
    let producer = "org.apache.kafka.tools.ConsoleProducer";
    success(&tool(
        lab,
        producer,
        &config,
        &["--topic", "t"],
        "one\ntwo\n",
    ));
    let consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer";
    let arguments = ["--topic", "t", "--from-beginning", "--max-messages", "2"];
    let text = success(&tool(lab, consumer, &config, &arguments, ""));
    assert_eq!(text, "one\ntwo\n");
}

/// Returns the directory with the compiled program `Connect`.
fn connect_classes() -> &'static Path {
    static COMPILED: OnceLock<()> = OnceLock::new();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    COMPILED.get_or_init(|| {
        let stop = AtomicBool::new(false);
        let tools = KafkaTools::find(KAFKA_VERSION, &mut |_| (), &stop).unwrap();
        let tool = tools.command("");
        let libs = tool
            .get_args()
            .find(|it| it.as_encoded_bytes().ends_with(b"/*"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/java/Connect.java");
        let mut javac = Command::new("javac");
        javac.arg("-cp").arg(libs.unwrap());
        success(&javac.arg("-d").arg(dir).arg(source).output().unwrap());
    });
    dir
}

/// Connects with the official Java client and each of the settings, in one Java VM.
///
/// Returns for each whether it connected, and its output; `None` for settings that the lab does not
/// have.
///
/// The client retries a rejected connection until its time ends, so that is short for a fault. A
/// correct client has its own minute: on a busy machine, 10 s were too few for one.
fn connect(lab: &Lab, all: &[ClientSettings]) -> Vec<Option<(bool, String)>> {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (at, settings) in all.iter().enumerate() {
        let mut lines = String::new();
        for (key, value) in lab.settings(*settings).into_iter().flatten() {
            lines.push_str(&format!("{key}={value}\n"));
        }
        if lines.is_empty() {
            continue;
        }
        if settings.fault.is_some() {
            lines.push_str("request.timeout.ms=25000\ndefault.api.timeout.ms=25000\n");
        }
        let file = dir.path().join(at.to_string());
        fs::write(&file, lines).unwrap();
        files.push(file);
    }
    // Reports the cause of a failed handshake also where the client does not.
    let options = ["-Djavax.net.debug=ssl:handshake"];
    let mut command = java(lab, "Connect", Some(connect_classes()), &options);
    let text = success(&command.args(&files).output().unwrap());
    let results = text.split(MARK).skip(1).collect::<Vec<_>>();
    assert_eq!(results.len(), files.len(), "{text}");
    let mut results = results.into_iter().map(|result| {
        let (state, log) = result.split_once('\n').unwrap();
        assert!(["connected", "failed"].contains(&state), "{state}");
        (state == "connected", log.to_owned())
    });
    let files: Vec<_> = files.iter().map(|file| file.file_name().unwrap()).collect();
    let of = |at: usize| {
        files
            .contains(&at.to_string().as_ref())
            .then(|| results.next())
    };
    (0..all.len()).map(of).map(Option::flatten).collect()
}

/// Returns parts of the client's output, one of which must appear.
///
/// Without them, a mistake of the test itself would pass as a rejected client.
fn causes(security: LabSecurity, fault: ClientFault) -> &'static [&'static str] {
    match fault {
        ClientFault::WrongPassword if security == LabSecurity::Oauth => &["invalid_client"],
        ClientFault::WrongPassword => &["Authentication failed"],
        ClientFault::OtherAuthority => &["PKIX path", "unable to find valid certification path"],
        ClientFault::OtherHost => &["No subject alternative names matching", "No name matching"],
        ClientFault::ExpiredServer => &["CertificateExpiredException", "validity check failed"],
        ClientFault::ExpiredClient => &["certificate_expired", "certificate_unknown"],
        // Java does not send a certificate whose authority the broker does not name.
        ClientFault::OtherClientAuthority | ClientFault::NoClientCertificate => {
            &["bad_certificate", "certificate_required"]
        }
        ClientFault::NoEncryption => &[
            "TimeoutException",
            // It takes the alert for the size of a response, and memory runs out.
            "The AdminClient thread has exited",
        ],
        ClientFault::WrongStorePassword => &["password was incorrect"],
    }
}

/// Connects with stores of all formats, and with each fault that the security mode has.
#[track_caller]
fn faults_are_rejected(lab: &Lab) {
    let correct = StoreFormat::ALL.map(|format| ClientSettings {
        format,
        ..ClientSettings::default()
    });
    let faults = ClientFault::ALL.map(|fault| ClientSettings {
        format: StoreFormat::Pkcs12,
        fault: Some(fault),
        ..ClientSettings::default()
    });
    let all: Vec<ClientSettings> = correct.into_iter().chain(faults).collect();
    let mut problems = Vec::new();
    let mut checked = 0;
    for (settings, result) in all.iter().zip(connect(lab, &all)) {
        let Some((is_connected, log)) = result else {
            assert!(settings.fault.is_some(), "{settings:?}");
            continue;
        };
        let is_right = match settings.fault {
            None => is_connected,
            Some(fault) => {
                checked += 1;
                let mut causes = causes(lab.security(), fault).iter();
                !is_connected && causes.any(|cause| log.contains(cause))
            }
        };
        if !is_right {
            let marks = [
                "Error while",
                "Fatal",
                "fatal alert",
                "Caused by",
                "Exception:",
            ];
            let lines = log.lines();
            let lines = lines.filter(|line| marks.iter().any(|mark| line.contains(mark)));
            let lines: Vec<_> = lines.take(8).collect();
            problems.push(format!("{settings:?}: {}", lines.join("\n    ")));
        }
    }
    assert!(checked >= 5, "{checked} faults for {}", lab.security());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns the certificate of the first broker as PEM.
fn server_certificate(lab: &Lab) -> String {
    let mut keytool = Command::new("keytool");
    keytool.args(["-printcert", "-rfc", "-sslserver"]);
    success(&keytool.arg(lab.bootstrap()).output().unwrap())
}

#[test]
fn registry_with_tls_and_login_keeps_schemas() {
    let options = RegistryOptions {
        security: RegistrySecurity {
            tls: true,
            basic_auth: true,
        },
        ..RegistryOptions::default()
    };
    let stop = AtomicBool::new(false);
    let mut registry = Registry::start(&options, &mut |_| (), &stop).unwrap();
    assert!(registry.url().starts_with("https://127.0.0.1:"));
    let avro = "{\"type\":\"string\"}";
    let id = registry.register("t-value", "AVRO", avro, &[]).unwrap();
    let protobuf = "syntax = \"proto3\"; message M { int32 a = 1; }";
    let other = registry
        .register("p-value", "PROTOBUF", protobuf, &[])
        .unwrap();
    assert_ne!(id, other);
    let error = registry.register("t-value", "AVRO", "{", &[]).unwrap_err();
    assert!(error.to_string().contains("rejected a request"), "{error}");
    registry.stop().unwrap();
    registry.start_again(&stop).unwrap();
    assert_eq!(registry.register("t-value", "AVRO", avro, &[]).unwrap(), id);
}

#[test]
fn clients_connect_with_plaintext() {
    console_tools_work(&secured(LabSecurity::Plaintext));
}

#[test]
fn clients_connect_with_tls() {
    let lab = secured(LabSecurity::Tls);
    console_tools_work(&lab);
    faults_are_rejected(&lab);
    let before = server_certificate(&lab);
    assert_eq!(server_certificate(&lab), before);
    lab.rotate_certificate(&AtomicBool::new(false)).unwrap();
    assert_ne!(server_certificate(&lab), before);
    let after = connect(&lab, &[ClientSettings::default()]).remove(0);
    assert!(matches!(after, Some((true, _))), "{after:?}");
}

#[test]
fn clients_connect_with_mtls() {
    let lab = secured(LabSecurity::Mtls);
    console_tools_work(&lab);
    faults_are_rejected(&lab);
}

#[test]
fn clients_connect_with_sasl_plain() {
    let lab = secured(LabSecurity::SaslPlain);
    console_tools_work(&lab);
    faults_are_rejected(&lab);
}

#[test]
fn clients_connect_with_scram() {
    let mut lab = secured(LabSecurity::Scram);
    // The restarted broker has the user and the certificates of the first start.
    lab.stop_broker(1).unwrap();
    lab.start_broker(1, &AtomicBool::new(false)).unwrap();
    console_tools_work(&lab);
    faults_are_rejected(&lab);
}

#[test]
fn clients_connect_with_oauth() {
    let lab = secured(LabSecurity::Oauth);
    console_tools_work(&lab);
    faults_are_rejected(&lab);
    let expired = TokenRequest {
        lifetime_s: Some(-60),
        ..TokenRequest::default()
    };
    for request in [TokenRequest::default(), expired] {
        let token = lab.token(request).unwrap();
        assert_eq!(token.split('.').count(), 3, "a signed token");
    }
}

/// Precedes the result of each client in the output of `Connect`.
const MARK: &str = "===== ";
