//! `weir bench run --engine kubernetes`: prints the objects of a run, or runs it in a cluster.

use std::time::Duration;

use anyhow::Context as _;
use weir_bench::Finished;
use weir_bench::plan::{Architecture, Plan, PlanEstimate};
use weir_engine::client_agents::new_token;
use weir_engine::inventory::InventoryRole;
use weir_engine::kubernetes::{FILES_DIR, KubernetesError, KubernetesRun};
use weir_report::RunData;

use crate::cmd::bench_common::print_result;
use crate::cmd::bench_engine::KubernetesArgs;
use crate::cmd::bench_run_args::{ClientsArgs, RunArgs};
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

/// Prints or executes a run.
pub(crate) fn run(args: &RunArgs, clients: &ClientsArgs, plan: &Plan) -> Result<Exit, Failure> {
    clients.common.run.require_cluster("--engine kubernetes")?;
    let options = &clients.kubernetes;
    let mut run = KubernetesRun {
        name: options.run_name.clone(),
        namespace: options.namespace.clone(),
        image: options.image.clone(),
        token: new_token(),
        args: ["bench", "run", "--archive-to-log"]
            .map(str::to_owned)
            .to_vec(),
        files: Vec::new(),
        roles: roles(plan, options),
        cpu: options.pod_cpu.clone(),
        memory: options.pod_memory.clone(),
        any_node: options.any_node,
        deadline: PlanEstimate::of(plan).time * 2 + START_TIME,
    };
    for (id, word) in args.words() {
        match id {
            _ if OWN.contains(&id) => {}
            _ if REJECTED.contains(&id) => {
                let option = word.split('=').next().unwrap_or_default();
                return Err(Failure::usage(format!(
                    "{option}: not possible with --engine kubernetes, see docs/many-machines.md"
                )));
            }
            _ => {
                let word = with_file(&mut run, id, &word)?;
                run.args.push(word);
            }
        }
    }
    if options.print {
        print!("{}", run.manifests());
        return Ok(Exit::Success);
    }
    // Never the objects of another run, which would be deleted.
    run.name = format!("{}-{}", run.name, &new_token()[..SUFFIX_DIGITS]);
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let mut note = |line: &str| eprintln!("{line}");
    let out = &clients.common.run.out;
    let result = run.execute(out, &mut note, &stop).map_err(failure)?;
    let finished = Finished {
        run: RunData::read(&result.dir)?.run,
        dir: result.dir,
    };
    clients.common.run.print(&finished, print_result);
    Ok(exit(result.exit_code))
}

/// Returns the exit code of the coordinator.
fn exit(code: Option<u8>) -> Exit {
    match code {
        Some(0) => Exit::Success,
        Some(1) => Exit::Threshold,
        Some(2) => Exit::Usage,
        Some(3) => Exit::Unreachable,
        _ => Exit::Tool,
    }
}

fn failure(error: KubernetesError) -> Failure {
    let exit = match error {
        KubernetesError::Interrupted => Exit::Interrupted,
        KubernetesError::Start(_) => Exit::Usage,
        KubernetesError::Failed(..) => Exit::Unreachable,
        KubernetesError::Results(_) | KubernetesError::NoResults(_) => Exit::Tool,
    };
    Failure::new(exit, error)
}

/// Returns the roles of a plan that have pods, with their number. The coordinator runs the gateway.
fn roles(plan: &Plan, pods: &KubernetesArgs) -> Vec<(InventoryRole, u16)> {
    let has = |architectures: &[Architecture]| {
        let mut of_plan = plan.architectures.iter();
        of_plan.any(|it| architectures.contains(it))
    };
    let clients = has(&[Architecture::Gateway, Architecture::Floor]);
    let consumers = has(&[Architecture::Groups, Architecture::Standalone]);
    let all = [
        (true, InventoryRole::Producers, pods.producers_agents),
        (consumers, InventoryRole::Consumers, pods.consumers_agents),
        (clients, InventoryRole::Clients, pods.clients_agents),
    ];
    let present = all.into_iter().filter(|(is_present, ..)| *is_present);
    present.map(|(_, role, pods)| (role, pods)).collect()
}

/// Returns an argument of the coordinator. A file that it names becomes one of the Secret.
fn with_file(run: &mut KubernetesRun, id: &str, word: &str) -> Result<String, Failure> {
    let (option, path) = match word.split_once('=') {
        Some((option, path)) if FILES.contains(&id) => (format!("{option}="), path),
        None if id == "plan" && word.ends_with(".toml") => (String::new(), word),
        _ => return Ok(word.to_owned()),
    };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {path}"))
        .or_exit(Exit::Usage)?;
    let name = match id {
        "plan" => "plan.toml".to_owned(),
        _ => format!("{}.file", id.replace('_', "-")),
    };
    let word = format!("{option}{FILES_DIR}/{name}");
    run.files.push((name, text));
    let bytes: usize = run.files.iter().map(|(_, text)| text.len()).sum();
    match bytes > FILES_BYTES_MAX {
        true => Err(Failure::usage(format!(
            "{path}: the files of a run have more than {FILES_BYTES_MAX} bytes, the limit of a \
             Secret"
        ))),
        false => Ok(word),
    }
}

/// Options of the engine, which the coordinator does not get, or gets with other values.
const OWN: [&str; 17] = [
    "engine",
    "print",
    "image",
    "namespace",
    "run_name",
    "producers_agents",
    "consumers_agents",
    "clients_agents",
    "pod_cpu",
    "pod_memory",
    "any_node",
    "archive_to_log",
    "out",
    "agents_listen",
    "agent_token_file",
    "json",
    "summary_json",
];
/// Options that need files of this machine.
const REJECTED: [&str; 4] = ["baseline", "inventory", "dry_run", "fail_on"];
/// Options whose value is a file.
const FILES: [&str; 2] = ["kafka_config", "gateways"];
const FILES_BYTES_MAX: usize = 900_000;
const SUFFIX_DIGITS: usize = 6;
/// Time for nodes to get the image, for all agents to join, and for reports.
const START_TIME: Duration = Duration::from_secs(1800);
