//! Subscriptions of the simulated clients, and the gateway configuration that serves them.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use weir_load::clients::{
    KEY_PLACEHOLDER, Mode, Scenario, assign_keys, mode_name, scenario::KeyPool,
};
use weir_load::delivery::{Expected, Ledger};
use weir_load::keys::KeyTable;
use weir_load::worker::protocol::LedgerEntry;

/// The `clients` table of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ClientsPlan {
    /// Scenario of the published load test, which sets data adapter and items.
    #[serde(deserialize_with = "scenario")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) scenario: Scenario,
    /// Gateway configuration: a file next to the plan, or a built-in one. `@BOOTSTRAP@`, `@TOPIC@`,
    /// `@THREADS@`, `@SCHEMA@` and `@REGISTRY@` are replaced for each cell.
    pub(crate) adapters: String,
    /// Server configuration of the gateway, a `lightstreamer_conf.xml`: a file next to the plan, or
    /// a built-in one.
    pub(crate) lightstreamer_conf: Option<String>,
    /// Field schema; `weir` is the stamp field.
    pub(crate) fields: Vec<String>,
    #[serde(deserialize_with = "mode_name::deserialize")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) mode: Mode,
    /// Pool of keys that clients subscribe to. Default: the pool of the scenario.
    pub(crate) keys: Keys,
    /// Single key that all clients subscribe to.
    pub(crate) key: Option<String>,
    /// Adds one unmodified SDK client to the simulated clients. Default: true.
    pub(crate) sdk: bool,
}

/// Pools of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Keys {
    #[default]
    Scenario,
    Fruits,
    /// Fruits, repeated to 500 characters.
    ExtendedFruits,
    FirstNames,
}

impl Default for ClientsPlan {
    /// Returns scenario 2, as in the plan `keyed`.
    fn default() -> Self {
        let fields = ["key", "value", "ts", "partition", "offset", "weir"];
        Self {
            scenario: Scenario::Two,
            adapters: "keyed-adapters.xml".to_owned(),
            lightstreamer_conf: None,
            fields: fields.map(str::to_owned).into(),
            mode: Mode::Raw,
            keys: Keys::Scenario,
            key: None,
            sdk: true,
        }
    }
}

impl ClientsPlan {
    /// Returns key and item of client `index`; no key in scenarios without keys in the item name.
    pub(crate) fn item(&self, index: u64) -> (Option<String>, String) {
        let published = self.scenario.corrected();
        if !published.items.contains(KEY_PLACEHOLDER) {
            return (None, published.items);
        }
        let (pool, extended) = self.pool();
        let names = pool.names(KEYS, extended);
        let drawn = || names[usize::try_from(index).unwrap_or(0) % KEYS].clone();
        let key = self.expected_key().unwrap_or_else(drawn);
        let item = published.items.replace(KEY_PLACEHOLDER, &key);
        (Some(key), item)
    }

    /// Returns the average number of deliveries per record if a server has `clients` clients.
    pub(crate) fn deliveries_per_record(&self, clients: u64) -> f64 {
        match self.item(0) {
            (Some(_), _) => clients as f64 / KEYS as f64,
            (None, _) => clients as f64,
        }
    }

    /// Returns the number of deliveries of acknowledged records that `clients` clients expect, each
    /// for its key; `None` if every client receives every record.
    pub(crate) fn expected_deliveries(
        &self,
        ledger: &[LedgerEntry],
        clients: u64,
        seed: u64,
    ) -> Option<u64> {
        if !self.scenario.corrected().items.contains(KEY_PLACEHOLDER) {
            return None;
        }
        let mut ids = KeyTable::default();
        let ledger = Ledger::new(ledger, &mut ids);
        let mut records = |key: &String| {
            let id = ids.id(key.as_bytes());
            id.map_or(0, |id| ledger.records(Expected::Key(id)))
        };
        if let Some(key) = self.expected_key() {
            return Some(clients * records(&key));
        }
        let (pool, extended) = self.pool();
        let of_key: Vec<u64> = pool.names(KEYS, extended).iter().map(records).collect();
        let assigned = assign_keys(usize::try_from(clients).ok()?, KEYS, seed);
        Some(assigned.into_iter().map(|key| of_key[key]).sum())
    }

    /// Returns the key pool, and `true` if its names are extended to 500 characters.
    pub(crate) fn pool(&self) -> (KeyPool, bool) {
        match self.keys {
            Keys::Scenario => (self.scenario.corrected().pool, false),
            Keys::Fruits => (KeyPool::Fruits, false),
            Keys::ExtendedFruits => (KeyPool::Fruits, true),
            Keys::FirstNames => (KeyPool::FirstNames, false),
        }
    }

    /// Returns the single key of all clients as it is in the records: names of the pool are
    /// extended if the pool is.
    pub(crate) fn expected_key(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        let (pool, extended) = self.pool();
        let at = pool.names(KEYS, false).iter().position(|name| name == key);
        let extended = at.map(|at| pool.names(KEYS, extended).swap_remove(at));
        Some(extended.unwrap_or_else(|| key.clone()))
    }
}

fn scenario<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Scenario, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || format!("unknown scenario \"{name}\", expected 1, 2, 3, 3jp or 3td");
    Scenario::of_name(&name).ok_or_else(|| D::Error::custom(unknown()))
}

/// Number of keys of the published generator.
const KEYS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_load::keys::extended_key;

    fn of(scenario: Scenario, index: u64) -> (Option<String>, String) {
        let clients = ClientsPlan {
            scenario,
            ..ClientsPlan::default()
        };
        clients.item(index)
    }

    #[test]
    fn deliveries_per_record_depend_on_scenario() {
        let per_record = |scenario| {
            let clients = ClientsPlan {
                scenario,
                ..ClientsPlan::default()
            };
            clients.deliveries_per_record(1000)
        };
        assert_eq!(per_record(Scenario::One), 1000.0);
        assert_eq!(per_record(Scenario::Two), 25.0);
    }

    #[test]
    fn expected_deliveries_sum_each_clients_key() {
        let entry = |key: &str, last_seq| LedgerEntry {
            key: key.to_owned(),
            producer: 0,
            first_seq: 1,
            last_seq,
            missing: vec![2],
            last_due_unix_ns: 0,
        };
        let ledger = [entry("Apple", 11), entry("Fig", 5)];
        let keyed = ClientsPlan::default();
        assert_eq!(
            keyed.expected_deliveries(&ledger, 80, 7),
            Some(2 * 10 + 2 * 4)
        );
        let one = ClientsPlan {
            key: Some("Fig".to_owned()),
            ..ClientsPlan::default()
        };
        assert_eq!(one.expected_deliveries(&ledger, 80, 7), Some(80 * 4));
        let all = ClientsPlan {
            scenario: Scenario::One,
            ..ClientsPlan::default()
        };
        assert_eq!(all.expected_deliveries(&ledger, 80, 7), None);
    }

    #[test]
    fn items_follow_the_scenario() {
        let some = |key: &str, item: &str| (Some(key.to_owned()), item.to_owned());
        assert_eq!(of(Scenario::One, 7), (None, "ltest".to_owned()));
        assert_eq!(of(Scenario::Two, 1), some("Banana", "ltest-[key=Banana]"));
        assert_eq!(
            of(Scenario::Three, 40),
            some("James", "jsontest-[key=James]")
        );
    }

    #[test]
    fn single_key_applies_to_all_clients() {
        let clients = |keys, key: &str| ClientsPlan {
            keys,
            key: Some(key.to_owned()),
            ..ClientsPlan::default()
        };
        let long = clients(Keys::ExtendedFruits, "Fig");
        assert_eq!(long.expected_key(), Some(extended_key("Fig")));
        assert_eq!(long.item(3), long.item(4));
        let own = clients(Keys::ExtendedFruits, "order-17");
        assert_eq!(own.item(0).1, "ltest-[key=order-17]");
        let name = clients(Keys::FirstNames, "Timothy");
        assert_eq!(name.item(0).1, "ltest-[key=Timothy]");
    }
}
