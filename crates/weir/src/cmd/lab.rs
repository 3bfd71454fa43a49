//! `weir lab up|down|status`: a Kafka cluster on this machine.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use weir_lab::{KAFKA_VERSION, Lab, LabOptions, LabSecurity, LabStatus, RegistrySecurity};
use weir_load::units::{parse_duration, parse_key_value};

use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Start Apache Kafka in the background and wait until it is ready
    Up(UpArgs),
    /// Stop the brokers and remove their data
    Down(DownArgs),
    /// Show ports, processes, version and directories of the brokers
    ///
    /// The exit code is 3 unless all brokers respond.
    Status(StatusArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Number of brokers, from 1 to 3; each is also a controller
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    brokers: u8,
    /// Apache Kafka release; downloaded once with Maven
    #[arg(long, value_name = "VERSION", default_value = KAFKA_VERSION)]
    kafka_version: String,
    /// Directory for configuration, logs and data [default: ~/.local/state/weir/lab]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// First of the ports of the brokers [default: free ports]
    ///
    /// Each broker uses two ports: all client ports come first, then all controller ports.
    #[arg(long)]
    port: Option<u16>,
    /// Address that brokers listen on and advertise to clients
    #[arg(long, value_name = "ADDRESS", default_value_t = Ipv4Addr::LOCALHOST)]
    host: Ipv4Addr,
    /// Maximum heap of each broker in MB
    #[arg(long, value_name = "MB", default_value_t = LabOptions::default().heap_mb)]
    heap_mb: u32,
    /// Encryption and login of clients
    #[arg(long, value_name = "MODE", value_parser = security_parser())]
    #[arg(default_value_t = LabSecurity::Plaintext)]
    security: LabSecurity,
    /// Also start a schema registry (Apicurio Registry, Confluent-compatible API)
    #[arg(long)]
    registry: bool,
    /// Registry over HTTPS
    #[arg(long, requires = "registry")]
    registry_tls: bool,
    /// Registry with user and password
    #[arg(long, requires = "registry")]
    registry_basic_auth: bool,
    /// Broker property, added to or replacing those of the lab; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_key_value)]
    properties: Vec<(String, String)>,
    /// JVM argument of each broker; repeatable
    #[arg(long = "jvm-arg", value_name = "ARGUMENT", allow_hyphen_values = true)]
    jvm_arguments: Vec<String>,
    /// Longest time until all brokers are ready
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "180s")]
    ready_timeout: Duration,
    /// Required free disk space in MB
    #[arg(long, value_name = "MB", default_value_t = 1024)]
    min_free_mb: u64,
    /// Try again to record the classes of the broker after a failure
    #[arg(long)]
    retry_classes: bool,
    /// Stay in the foreground until Ctrl-C, then stop the brokers
    #[arg(long)]
    foreground: bool,
    /// Keep the data after stopping, with --foreground
    #[arg(long, requires = "foreground")]
    keep_data: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// Directory of the lab [default: ~/.local/state/weir/lab]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep topics and records for the next `weir lab up`
    #[arg(long)]
    keep_data: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Directory of the lab [default: ~/.local/state/weir/lab]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: LabCommand) -> Result<Exit, Failure> {
    match command {
        LabCommand::Up(args) => up(&args),
        LabCommand::Down(args) => down(&args),
        LabCommand::Status(args) => status(&args),
    }
}

fn up(args: &UpArgs) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => weir_lab::default_dir()?,
    };
    let options = LabOptions {
        brokers: args.brokers,
        kafka_version: args.kafka_version.clone(),
        dir: Some(dir),
        port: args.port,
        host: args.host,
        detached: !args.foreground,
        heap_mb: args.heap_mb,
        properties: args.properties.clone(),
        security: args.security,
        registry: args.registry.then_some(RegistrySecurity {
            tls: args.registry_tls,
            basic_auth: args.registry_basic_auth,
        }),
        jvm_arguments: args.jvm_arguments.clone(),
        second_listeners: Vec::new(),
        keep_data: args.keep_data,
        min_free_bytes: args.min_free_mb << 20,
        retry_classes: args.retry_classes,
        ready_timeout: args.ready_timeout,
        ..LabOptions::default()
    };
    let mut lab = Lab::up(&options, &mut progress, &stop)?;
    if args.json {
        print_json(&weir_lab::status(Some(lab.dir()))?)?;
    } else {
        print_ready(&lab, args)?;
    }
    if args.foreground {
        return wait(&mut lab, &stop);
    }
    Ok(Exit::Success)
}

/// Waits for Ctrl-C or for an unexpected exit of a broker, then stops the brokers.
fn wait(lab: &mut Lab, stop: &AtomicBool) -> Result<Exit, Failure> {
    while !stop.load(Ordering::Relaxed) {
        if !lab.is_running() {
            if lab.was_stopped_externally() {
                progress("stopped by another command");
                return Ok(Exit::Success);
            }
            let status = weir_lab::status(Some(lab.dir()))?;
            let exited = status.brokers.iter().find(|broker| broker.pid.is_none());
            let exited = exited.map_or_else(String::new, |broker| {
                format!("broker {} {}", broker.node_id, broker.problem)
            });
            lab.finish()?;
            let error = anyhow::anyhow!("a broker exited unexpectedly: {exited}");
            return Err(Failure::new(Exit::Unreachable, error));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    progress("stopping");
    lab.finish()?;
    Ok(Exit::Success)
}

fn down(args: &DownArgs) -> Result<Exit, Failure> {
    let report = weir_lab::down(args.dir.as_deref(), args.keep_data, &mut progress)?;
    let dir = report.dir.display();
    if args.json {
        print_json(&report)?;
    } else if !report.found {
        println!("no lab in {dir}");
    } else {
        let data = match report.data_removed {
            true => "removed",
            false => "kept",
        };
        println!(
            "{} broker(s) stopped, data {data}: {dir}",
            report.stopped.len()
        );
    }
    Ok(Exit::Success)
}

fn status(args: &StatusArgs) -> Result<Exit, Failure> {
    let status = weir_lab::status(args.dir.as_deref())?;
    if args.json {
        print_json(&status)?;
    } else {
        print_status(&status);
    }
    Ok(match status.is_running() {
        true => Exit::Success,
        false => Exit::Unreachable,
    })
}

/// Returns the parser of security modes, with their names for `--help`.
fn security_parser() -> impl TypedValueParser<Value = LabSecurity> {
    PossibleValuesParser::new(LabSecurity::ALL.map(LabSecurity::name))
        .try_map(|name| name.parse::<LabSecurity>())
}

/// Prints the registry, and the client configuration if the brokers require encryption or login.
fn print_security(lab: &Lab) -> Result<(), Failure> {
    let config = lab.client_config();
    if let Some(registry) = lab.registry() {
        println!("  registry   {}", registry.url());
        // The client configuration names only the CA of the brokers.
        if let Some(files) = registry.files().filter(|_| registry.uses_tls()) {
            let authority = files.authority().pem();
            println!("  registry CA {}", authority.display());
        }
        if registry.login().is_some() {
            println!("  login      see user_password in {}", secrets_path(lab));
        }
    }
    if lab.security() == LabSecurity::Plaintext {
        return Ok(());
    }
    println!("  security   {}", lab.security());
    println!("  settings   --kafka-config {}", config.display());
    if let Some(endpoint) = lab.token_endpoint() {
        println!("  tokens     {endpoint}");
        let urls = "org.apache.kafka.sasl.oauthbearer.allowed.urls";
        println!("  Java tools KAFKA_OPTS=-D{urls}={endpoint}");
    }
    let text = std::fs::read_to_string(&config).or_exit(Exit::Tool)?;
    println!("\n# {}\n{text}", config.display());
    Ok(())
}

fn secrets_path(lab: &Lab) -> String {
    let files = lab.security_files();
    files.map_or_else(String::new, |files| {
        files.secrets_file().display().to_string()
    })
}

fn print_ready(lab: &Lab, args: &UpArgs) -> Result<(), Failure> {
    let already = if lab.was_running() { "already " } else { "" };
    let brokers = lab.brokers().len();
    println!(
        "Apache Kafka {} is {already}running, {brokers} broker(s): {}",
        lab.kafka_version(),
        lab.bootstrap()
    );
    println!(
        "  clients    up to {} connections per broker (limit of open files)",
        lab.max_clients_hint()
    );
    println!("  directory  {}", lab.dir().display());
    let dir = args.dir.as_ref();
    let dir = dir.map_or_else(String::new, |dir| format!(" --dir {}", dir.display()));
    if args.foreground {
        println!("  stop       Ctrl-C");
    } else {
        println!("  status     weir lab status{dir}");
        println!("  stop       weir lab down{dir}");
    }
    print_security(lab)
}

fn print_status(status: &LabStatus) {
    if status.state == "none" {
        println!("no lab in {}", status.dir.display());
        return;
    }
    println!(
        "lab {}: Apache Kafka {}, heap {} MB",
        status.state, status.kafka_version, status.heap_mb
    );
    println!("  directory  {}", status.dir.display());
    println!("  disk free  {} MB", status.disk_free_bytes >> 20);
    if matches!(status.state, "running" | "incomplete" | "starting") {
        println!("  bootstrap  {}", status.bootstrap);
        println!("  uptime     {} s", status.uptime_seconds);
        println!("  clients    up to {} per broker", status.clients_max);
        println!("  security   {}", status.security);
        println!(
            "  settings   --kafka-config {}",
            status.client_config.display()
        );
    }
    for broker in &status.brokers {
        let process = match broker.pid {
            Some(pid) => format!("pid {pid}"),
            None => "not running".to_owned(),
        };
        println!(
            "  broker {}   port {}, controller port {}, {process}, logs {}",
            broker.node_id,
            broker.port,
            broker.controller_port,
            broker.logs.display()
        );
        if !broker.problem.is_empty() {
            println!("             {}", broker.problem);
        }
    }
    print_servers(status);
}

fn print_servers(status: &LabStatus) {
    for server in &status.servers {
        let process = match (server.pid, server.ready) {
            (Some(pid), true) => format!("pid {pid}"),
            (Some(pid), false) => format!("pid {pid}, does not respond"),
            (None, _) => "not running".to_owned(),
        };
        println!("  {}: port {}, {process}", server.name, server.port);
    }
    if let Some(url) = &status.registry_url {
        println!("  registry   {url}");
    }
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).or_exit(Exit::Tool)?;
    println!("{text}");
    Ok(())
}

fn progress(line: &str) {
    eprintln!("weir: {line}");
}
