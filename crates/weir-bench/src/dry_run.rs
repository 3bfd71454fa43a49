//! Computes what a plan would run on which machine, and which limits that would hit.
//!
//! The costs come from runs on one machine with 2 cores (README.md, Measured). They show the order
//! of magnitude, as [`PlanEstimate`](crate::plan::PlanEstimate) does.

use weir_engine::inventory::{Inventory, InventoryRole};
use weir_engine::limits::{ExceededLimit, MachineLimits, Needs};

use crate::level_history::PORTS_SPARE;
use crate::plan::{Architecture, Plan, PlanPoint};
use crate::sweep::SweepPlan;
use crate::verdict;

/// Machines of a plan, with what they would run.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// Machines that run processes of the plan; roles without a machine are on this one, the last.
    pub machines: Vec<MachineNeeds>,
    /// Roles of the inventory that the plan does not have.
    pub unused: Vec<InventoryRole>,
}

/// Machine of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineNeeds {
    /// Name in the inventory.
    pub name: String,
    /// Roles, each with the number of machines that share it.
    pub roles: Vec<(InventoryRole, usize)>,
    /// Its limits, as far as they are known.
    pub limits: MachineLimits,
    /// Largest needs of all cells, for each resource.
    pub most: Needs,
    /// MachineLimits that are exceeded, each at the first cell.
    pub exceeded: Vec<(ExceededLimit, String)>,
}

/// Load of one cell, for all its machines together.
#[derive(Debug, Clone, Copy)]
struct CellLoad {
    /// Server between brokers and clients, or plain consumers.
    architecture: Architecture,
    clients: u64,
    records_per_s: f64,
    deliveries_per_s: f64,
    value_bytes: f64,
    /// File descriptors of a process besides those of its clients.
    spare: u64,
}

impl DryRun {
    /// Returns what `plan` would run on the machines of `inventory`. `this_machine` has the limits
    /// of this machine.
    pub fn of(plan: &Plan, inventory: &Inventory, this_machine: MachineLimits) -> Self {
        let mut dry_run = Self::new(&roles(plan), inventory, this_machine);
        for point in plan.points() {
            for architecture in &plan.architectures {
                let load = CellLoad::of(plan, *architecture, point);
                let clients = verdict::clients(point.clients);
                let rate = point.rate_per_s;
                let cell = format!("{} at {clients} and {rate} records/s", architecture.name());
                dry_run.add(&load, &cell);
            }
        }
        dry_run
    }

    /// Returns what a sweep would run on the machines of `inventory`.
    pub fn of_sweep(plan: &SweepPlan, inventory: &Inventory, this_machine: MachineLimits) -> Self {
        let roles = [
            InventoryRole::Brokers,
            InventoryRole::Producers,
            InventoryRole::Consumers,
        ];
        let mut dry_run = Self::new(&roles, inventory, this_machine);
        for (size_bytes, rate_per_s) in plan.sweep.measured_producer_points() {
            let load = CellLoad {
                architecture: Architecture::Standalone,
                clients: 0,
                records_per_s: rate_per_s as f64,
                deliveries_per_s: 0.0,
                value_bytes: size_bytes as f64,
                spare: SPARE,
            };
            let cell = format!("records of {size_bytes} bytes at {rate_per_s} records/s");
            dry_run.add(&load, &cell);
        }
        dry_run
    }

    fn new(roles: &[InventoryRole], inventory: &Inventory, this_machine: MachineLimits) -> Self {
        let shares = |role: InventoryRole| inventory.with(role).count();
        let assigned = inventory.machines.iter().map(|machine| MachineNeeds {
            name: machine.name.clone(),
            roles: of_plan(&machine.roles, roles)
                .map(|role| (role, shares(role)))
                .collect(),
            limits: machine.limits,
            most: Needs::default(),
            exceeded: Vec::new(),
        });
        let rest = roles.iter().filter(|role| shares(**role) == 0);
        let rest = MachineNeeds {
            name: "this machine".to_owned(),
            roles: rest.map(|role| (*role, 1)).collect(),
            limits: this_machine,
            most: Needs::default(),
            exceeded: Vec::new(),
        };
        let machines = assigned.chain([rest]);
        let is_unused = |role: &InventoryRole| shares(*role) > 0 && !roles.contains(role);
        Self {
            machines: machines.filter(|it| !it.roles.is_empty()).collect(),
            unused: InventoryRole::ALL.into_iter().filter(is_unused).collect(),
        }
    }

    fn add(&mut self, load: &CellLoad, cell: &str) {
        for machine in &mut self.machines {
            let roles = machine.roles.iter();
            let needs = roles.filter_map(|(role, machines)| load.needs(*role, *machines));
            let Some(needs) = needs.reduce(Needs::and) else {
                continue;
            };
            machine.most = machine.most.max(needs);
            for limit in needs.exceeded(&machine.limits) {
                let mut known = machine.exceeded.iter();
                if known.all(|(known, _)| known.resource != limit.resource) {
                    machine.exceeded.push((limit, cell.to_owned()));
                }
            }
        }
    }

    /// Returns `true` if a machine has a limit that is too low for a cell.
    pub fn exceeds_limits(&self) -> bool {
        let mut machines = self.machines.iter();
        machines.any(|machine| !machine.exceeded.is_empty())
    }
}

fn of_plan<'a>(
    roles: &'a [InventoryRole],
    plan: &'a [InventoryRole],
) -> impl Iterator<Item = InventoryRole> + 'a {
    roles.iter().copied().filter(|role| plan.contains(role))
}

/// Returns the roles of a plan.
fn roles(plan: &Plan) -> Vec<InventoryRole> {
    let has = |architecture| plan.architectures.contains(&architecture);
    let has_server = has(Architecture::Gateway) || has(Architecture::Floor);
    let has_consumers = has(Architecture::Groups) || has(Architecture::Standalone);
    let is_present = |role: &InventoryRole| match role {
        InventoryRole::Brokers | InventoryRole::Producers => true,
        InventoryRole::Gateway | InventoryRole::Clients => has_server,
        InventoryRole::Consumers => has_consumers,
        InventoryRole::Probe => has(Architecture::Gateway) && plan.clients.sdk,
        InventoryRole::Proxy => false,
    };
    InventoryRole::ALL.into_iter().filter(is_present).collect()
}

impl CellLoad {
    fn of(plan: &Plan, architecture: Architecture, point: PlanPoint) -> Self {
        let per_record = match architecture {
            Architecture::Gateway | Architecture::Floor => {
                plan.clients.deliveries_per_record(point.clients)
            }
            plain => plan.receivers_per_record(plain, point.clients),
        };
        let size = plan.workload.size();
        Self {
            architecture,
            clients: point.clients,
            records_per_s: point.rate_per_s,
            deliveries_per_s: point.rate_per_s * per_record,
            value_bytes: size.map_or(SCHEMA_VALUE_BYTES, f64::from),
            spare: plan.stop.descriptors_spare,
        }
    }

    /// Returns the needs of one of the `machines` that share a role; `None` if the cell does not
    /// have it.
    fn needs(&self, role: InventoryRole, machines: usize) -> Option<Needs> {
        let share = machines.max(1) as f64;
        let is_kafka = matches!(
            self.architecture,
            Architecture::Groups | Architecture::Standalone
        );
        // Each group member has a separate connection to its group coordinator.
        let per_client = match self.architecture {
            Architecture::Groups => 2,
            _ => 1,
        };
        let mine = (self.clients * per_client).div_ceil(machines.max(1) as u64);
        let record_bytes = self.value_bytes + RECORD_OVERHEAD_BYTES;
        let records = mbit(self.records_per_s * record_bytes);
        let fetched = mbit(self.deliveries_per_s * (self.value_bytes + FETCH_OVERHEAD_BYTES));
        let updates = mbit(self.deliveries_per_s * (self.value_bytes + UPDATE_OVERHEAD_BYTES));
        let cores = |us: f64, per_s: f64| Some(us * per_s / 1e6 / share);
        Some(match role {
            InventoryRole::Brokers if is_kafka => Needs {
                // Every consumer is connected to the leader of each partition.
                file_descriptors: self.clients * per_client + self.spare,
                cores: (self.clients > 0).then(|| BROKER_US * self.deliveries_per_s / 1e6 / share),
                received_mbit_per_s: records / share,
                sent_mbit_per_s: fetched / share,
                ..Needs::default()
            },
            InventoryRole::Brokers => Needs {
                file_descriptors: self.spare,
                received_mbit_per_s: records / share,
                sent_mbit_per_s: records / share,
                ..Needs::default()
            },
            InventoryRole::Producers => Needs {
                file_descriptors: self.spare,
                cores: cores(PRODUCER_US, self.records_per_s),
                sent_mbit_per_s: records / share,
                ..Needs::default()
            },
            InventoryRole::Gateway if !is_kafka => Needs {
                file_descriptors: self.clients + self.spare,
                cores: Some(
                    (GATEWAY_US * self.deliveries_per_s + INGEST_US * self.records_per_s) / 1e6,
                ),
                received_mbit_per_s: records,
                sent_mbit_per_s: updates,
                ..Needs::default()
            },
            InventoryRole::Clients if !is_kafka => Needs {
                file_descriptors: mine + self.spare,
                ports: mine + PORTS_SPARE,
                cores: cores(CLIENT_US, self.deliveries_per_s),
                received_mbit_per_s: updates / share,
                ..Needs::default()
            },
            InventoryRole::Consumers if is_kafka && self.clients > 0 => Needs {
                file_descriptors: mine + self.spare,
                ports: mine + PORTS_SPARE,
                cores: cores(CONSUMER_US, self.deliveries_per_s),
                received_mbit_per_s: fetched / share,
                ..Needs::default()
            },
            InventoryRole::Gateway
            | InventoryRole::Clients
            | InventoryRole::Consumers
            | InventoryRole::Proxy
            | InventoryRole::Probe => {
                return None;
            }
        })
    }
}

fn mbit(bytes: f64) -> f64 {
    bytes * 8.0 / 1e6
}

/// Value of a built-in schema.
const SCHEMA_VALUE_BYTES: f64 = 600.0;
/// Key, headers and the text before the value, on the way from producers and to a gateway.
const RECORD_OVERHEAD_BYTES: f64 = 200.0;
/// The same and the rest of a Fetch response with one record.
const FETCH_OVERHEAD_BYTES: f64 = 300.0;
/// Other fields of an update, and its frame.
const UPDATE_OVERHEAD_BYTES: f64 = 100.0;
/// CPU time in microseconds: of the broker per record fetched by a consumer of its own.
const BROKER_US: f64 = 57.0;
/// Of consumers per record.
const CONSUMER_US: f64 = 18.0;
/// Of the gateway per delivery.
const GATEWAY_US: f64 = 12.0;
/// Of the gateway per record read.
const INGEST_US: f64 = 2.7;
/// Of clients per delivery.
const CLIENT_US: f64 = 4.5;
/// Of producers per record.
const PRODUCER_US: f64 = 3.7;
/// File descriptors of a process without clients.
const SPARE: u64 = 512;

#[cfg(test)]
mod tests {
    use weir_engine::limits::LimitedResource;

    use super::*;
    use crate::plan::tests::built_in;

    const MACHINES: &str = r#"
        [[machine]]
        name = "kafka"
        roles = ["brokers"]
        [[machine]]
        name = "gw"
        roles = ["gateway", "proxy"]
        limits = { file_descriptors = 45000, cores = 4, mbit_per_s = 1000 }
        [[machine]]
        name = "load-1"
        roles = ["clients", "consumers"]
        limits = { ports = 20000 }
        [[machine]]
        name = "load-2"
        roles = ["clients", "consumers"]
    "#;

    fn inventory() -> Inventory {
        Inventory::parse(MACHINES, "test").unwrap()
    }

    fn machine<'a>(dry_run: &'a DryRun, name: &str) -> &'a MachineNeeds {
        let mut machines = dry_run.machines.iter();
        machines.find(|machine| machine.name == name).unwrap()
    }

    #[test]
    fn roles_without_machine_stay_here() {
        let dry_run = DryRun::of(
            &built_in("broadcast"),
            &inventory(),
            MachineLimits::default(),
        );
        let here = machine(&dry_run, "this machine");
        assert_eq!(
            here.roles,
            [(InventoryRole::Producers, 1), (InventoryRole::Probe, 1)]
        );
        let load = machine(&dry_run, "load-1");
        assert_eq!(
            load.roles,
            [(InventoryRole::Clients, 2), (InventoryRole::Consumers, 2)]
        );
        assert_eq!(dry_run.unused, [InventoryRole::Proxy]);
    }

    #[test]
    fn full_levels_hit_limits_at_first_cell() {
        let plan = built_in("broadcast");
        let dry_run = DryRun::of(&plan, &inventory(), MachineLimits::default());
        assert!(dry_run.exceeds_limits());
        let gateway = machine(&dry_run, "gw");
        assert_eq!(gateway.most.file_descriptors, 50_000 + 512);
        let at = |resource| {
            let mut exceeded = gateway.exceeded.iter();
            let found = exceeded.find(|(limit, _)| limit.resource == resource);
            found.map(|(_, cell)| cell.as_str())
        };
        let first = "gateway at 50000 clients and 4 records/s";
        assert_eq!(at(LimitedResource::FileDescriptors), Some(first));
        // 32,000 clients, 4 records/s and 1.1 KB.
        let sent = "gateway at 32000 clients and 4 records/s";
        assert_eq!(at(LimitedResource::Sent), Some(sent));
        assert_eq!(at(LimitedResource::Cores), None);
        // The members of groups have two connections each.
        let load = machine(&dry_run, "load-1");
        assert_eq!(load.most.ports, 50_000 + PORTS_SPARE);
        let unlimited = machine(&dry_run, "load-2");
        assert_eq!((unlimited.most, unlimited.exceeded.len()), (load.most, 0));
    }

    #[test]
    fn small_plan_fits() {
        let plan = built_in("broadcast").quick("test").unwrap();
        let dry_run = DryRun::of(&plan, &inventory(), MachineLimits::default());
        assert!(!dry_run.exceeds_limits(), "{dry_run:?}");
        // The work of a broker per record is not estimated.
        let keyed = built_in("filter-basic");
        let dry_run = DryRun::of(&keyed, &inventory(), MachineLimits::default());
        let kafka = machine(&dry_run, "kafka").most;
        assert_eq!(kafka.cores, None);
        assert!(kafka.sent_mbit_per_s > 0.0);
    }
}
