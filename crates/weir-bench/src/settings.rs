//! Process roles and settings of a plan, as recorded in `run.json`.

use weir_engine::inventory::InventoryRole;
use weir_engine::machines::Machines;
use weir_stats::run::{Placement, SettingGroup};

use crate::child::ProcessRole;
use crate::experiment::RunBroker;
use crate::experiment::run_dir::{self, list};
use crate::plan::{Architecture, Plan, Validity, Workload};

/// Returns the process roles of a plan with their machines.
pub(super) fn placement(plan: &Plan, machines: Option<&Machines>) -> Vec<Placement> {
    let has = |architecture| plan.architectures.contains(&architecture);
    let is_timed_apart = plan.workload.marked_per_s > 0.0;
    let (gateway, floor) = (has(Architecture::Gateway), has(Architecture::Floor));
    let consumers = has(Architecture::Groups) || has(Architecture::Standalone);
    let marked = "producer of the timed records; all other records are background load";
    let clients = "simulated clients, one event loop";
    let all_external = plan.variants.iter().all(|it| it.external.is_some());
    let gateway_text = match all_external && !plan.variants.is_empty() {
        true => "as in the settings of gateways",
        false => "weir gateway run",
    };
    let roles = [
        (true, "broker", "Apache Kafka"),
        (true, "produce", "open-loop producers"),
        (is_timed_apart, "produce_marked", marked),
        (gateway, "gateway", gateway_text),
        (floor, "floor", "pre-encoded frames, plain socket writes"),
        (gateway || floor, "clients", clients),
        (gateway && plan.clients.sdk, "probe", "one SDK client"),
        (consumers, "consume", "plain consumers, one event loop"),
    ];
    let present = roles.into_iter().filter(|(is_present, ..)| *is_present);
    let placements = present.map(|(_, role, text)| {
        let placement = run_dir::placement(role, text);
        let known = match role {
            "probe" => Some(InventoryRole::Probe),
            _ => role.parse().ok().map(ProcessRole::in_inventory),
        };
        let hosts: Vec<&str> = match known.zip(machines) {
            Some((role, machines)) => machines.with(role).map(|it| it.name.as_str()).collect(),
            None => Vec::new(),
        };
        match hosts.len() {
            0 => placement,
            count => Placement {
                host: hosts.join(", "),
                processes: count as u64,
                ..placement
            },
        }
    });
    placements.collect()
}

pub(super) fn settings(plan: &Plan, broker: &RunBroker) -> Vec<SettingGroup> {
    let variants: Vec<&str> = plan.variants.iter().map(|it| it.name.as_str()).collect();
    let load = SettingGroup::new("load")
        .with("levels_clients", list(&plan.levels))
        .with("variants", variants.join(" "))
        .with("repetitions", plan.repetitions)
        .with("ramp_per_s", plan.ramp_per_s)
        .with("broker_warm_up_s", plan.broker_warm_up.as_secs_f64())
        .with("warm_up_s", plan.warm_up.as_secs_f64())
        .with("hold_s", plan.hold.as_secs_f64())
        .with("drain_s", plan.drain.as_secs_f64());
    let external = plan.variants.iter().filter_map(|it| it.external.as_ref());
    let gateways = external.fold(SettingGroup::new("gateways"), |group, gateway| {
        let start = match gateway.is_started() {
            true => "started for each cell",
            false => "not started by this run",
        };
        let text = format!("{} {}, {start}", gateway.protocol, gateway.url);
        group.with(&gateway.name, text)
    });
    let key = plan.clients.key.as_deref();
    let clients = SettingGroup::new("clients")
        .with("scenario", plan.clients.scenario.name())
        .with("mode", plan.clients.mode.as_str())
        .with("key", key.unwrap_or("distributed over the pool"))
        .with("fields", plan.clients.fields.join(" "));
    let mut groups = vec![
        load,
        workload(&plan.workload, &list(&plan.rates_per_s())),
        clients,
        topic(&plan.workload, plan.topic.as_deref(), broker),
        validity(&plan.validity),
    ];
    if plan.variants.iter().any(|it| it.external.is_some()) {
        groups.push(gateways);
    }
    groups
}

/// Returns the settings of the records, with the rates of all cells.
pub(super) fn workload(workload: &Workload, rates_per_s: &str) -> SettingGroup {
    let size = workload.size().map(|size| size.to_string());
    let schema = workload.schema.as_deref();
    SettingGroup::new("workload")
        .with("kind", workload.kind)
        .with("rate_per_s", rates_per_s)
        .with("marked_per_s", workload.marked_per_s)
        .with("size_bytes", size.as_deref().unwrap_or("of the schema"))
        .with("schema", schema.unwrap_or("built in, if the kind has one"))
        .with("producers", workload.producers)
        .with("keys", workload.keys)
        .with("key_distribution", workload.distribution)
        .with("entropy", workload.entropy)
        .with("change_ratio", workload.change_ratio)
        .with("compression.type", &workload.compression)
        .with("seed", workload.seed)
}

/// Adds the servers and the names of client properties, whose values may be secret.
pub(super) fn cluster(group: SettingGroup, broker: &RunBroker) -> SettingGroup {
    let group = group.with("bootstrap.servers", &broker.bootstrap);
    match broker.property_names.as_str() {
        "" => group,
        names => group.with("kafka_properties", names),
    }
}

pub(super) fn topic(workload: &Workload, name: Option<&str>, broker: &RunBroker) -> SettingGroup {
    let (timestamps, origin) = workload.timestamps.topic_config();
    cluster(SettingGroup::new("topic"), broker)
        .with("name", name.unwrap_or("new topic per cell"))
        .with("partitions", workload.partitions)
        .with(timestamps, origin)
        .with("replication.factor", 1)
}

/// Returns the limits that a cell must meet to be valid.
pub(super) fn validity(validity: &Validity) -> SettingGroup {
    SettingGroup::new("validity")
        .with("schedule_lag_p99_ms", validity.schedule_lag_p99_ms)
        .with("clients_busy_share", validity.clients_busy_share)
}
