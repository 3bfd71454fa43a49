//! What the clients behind a server ask for, and the gateway's configuration that answers them.

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
#[serde(deny_unknown_fields, default)]
pub struct ClientsPlan {
    /// Scenario of the published load test: decides data adapter and items.
    #[serde(deserialize_with = "scenario")]
    pub scenario: Scenario,
    /// The gateway's configuration: a file beside the plan, or one of the built-in plans'.
    /// `@BOOTSTRAP@`, `@TOPIC@` and `@THREADS@` stand for those of the cell.
    pub adapters: String,
    /// The gateway's server settings, a `lightstreamer_conf.xml`: a file beside the plan, or one of the
    /// built-in plans'.
    pub lightstreamer_conf: Option<String>,
    /// Field schema; `weir` is the stamp.
    pub fields: Vec<String>,
    /// Subscription mode. Default RAW.
    #[serde(deserialize_with = "mode_name::deserialize")]
    pub mode: Mode,
    /// The keys that clients are spread over. Default: those of the scenario.
    pub keys: Keys,
    /// The one key that all clients want.
    pub key: Option<String>,
    /// Whether an unmodified SDK client subscribes beside them. Default yes.
    pub sdk: bool,
}

/// Pools of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// The scenario's.
    #[default]
    Scenario,
    /// Fruits.
    Fruits,
    /// Fruits, repeated to 500 characters.
    ExtendedFruits,
    /// First names.
    FirstNames,
}

impl Default for ClientsPlan {
    /// Scenario 2, as the plan `keyed` has it.
    fn default() -> Self {
        Self {
            scenario: Scenario::Two,
            adapters: "keyed-adapters.xml".to_owned(),
            lightstreamer_conf: None,
            fields: ["key", "value", "ts", "partition", "offset", "weir"]
                .map(str::to_owned)
                .into(),
            mode: Mode::Raw,
            keys: Keys::Scenario,
            key: None,
            sdk: true,
        }
    }
}

impl ClientsPlan {
    /// The key and the item of client number `index`; no key where everybody gets everything.
    pub(crate) fn item(&self, index: u64) -> (Option<String>, String) {
        let published = self.scenario.corrected();
        if !published.items.contains(KEY_PLACEHOLDER) {
            return (None, published.items);
        }
        let (pool, extended) = self.pool();
        let names = pool.names(KEYS, extended);
        let drawn = || names[usize::try_from(index).unwrap_or(0) % KEYS].clone();
        let key = self.wanted_key().unwrap_or_else(drawn);
        let item = published.items.replace(KEY_PLACEHOLDER, &key);
        (Some(key), item)
    }

    /// To how many of `clients` a server brings one record, on average.
    pub(crate) fn deliveries_per_record(&self, clients: u64) -> f64 {
        match self.item(0) {
            (Some(_), _) => clients as f64 / KEYS as f64,
            (None, _) => clients as f64,
        }
    }

    /// Returns how many deliveries of acknowledged records `clients` clients want, each the records of
    /// its key; `None` where every client wants every record.
    pub(crate) fn wanted(&self, ledger: &[LedgerEntry], clients: u64, seed: u64) -> Option<u64> {
        if !self.scenario.corrected().items.contains(KEY_PLACEHOLDER) {
            return None;
        }
        let mut ids = KeyTable::default();
        let ledger = Ledger::new(ledger, &mut ids);
        let mut records = |key: &String| {
            let id = ids.id(key.as_bytes());
            id.map_or(0, |id| ledger.records(Expected::Key(id)))
        };
        if let Some(key) = self.wanted_key() {
            return Some(clients * records(&key));
        }
        let (pool, extended) = self.pool();
        let of_key: Vec<u64> = pool.names(KEYS, extended).iter().map(records).collect();
        let assigned = assign_keys(usize::try_from(clients).ok()?, KEYS, seed);
        Some(assigned.into_iter().map(|key| of_key[key]).sum())
    }

    /// The names that keys have, and whether in their long form.
    pub(crate) fn pool(&self) -> (KeyPool, bool) {
        match self.keys {
            Keys::Scenario => (self.scenario.corrected().pool, false),
            Keys::Fruits => (KeyPool::Fruits, false),
            Keys::ExtendedFruits => (KeyPool::Fruits, true),
            Keys::FirstNames => (KeyPool::FirstNames, false),
        }
    }

    /// The one key that all want, as records have it: a name of the pool gets its long form.
    pub(crate) fn wanted_key(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        let (pool, extended) = self.pool();
        let at = pool.names(KEYS, false).iter().position(|name| name == key);
        Some(at.map_or_else(
            || key.clone(),
            |at| pool.names(KEYS, extended).swap_remove(at),
        ))
    }
}

fn scenario<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Scenario, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || {
        D::Error::custom(format!(
            "unknown scenario \"{name}\": use 1, 2, 3, 3jp or 3td"
        ))
    };
    Scenario::of_name(&name).ok_or_else(unknown)
}

/// Keys of the published generator.
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
    fn a_record_goes_to_those_who_want_its_key() {
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
    fn wanted_deliveries_are_those_of_each_clients_key() {
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
        assert_eq!(keyed.wanted(&ledger, 80, 7), Some(2 * 10 + 2 * 4));
        let one = ClientsPlan {
            key: Some("Fig".to_owned()),
            ..ClientsPlan::default()
        };
        assert_eq!(one.wanted(&ledger, 80, 7), Some(80 * 4));
        let all = ClientsPlan {
            scenario: Scenario::One,
            ..ClientsPlan::default()
        };
        assert_eq!(all.wanted(&ledger, 80, 7), None);
    }

    #[test]
    fn items_are_those_of_the_scenario() {
        let some = |key: &str, item: &str| (Some(key.to_owned()), item.to_owned());
        assert_eq!(of(Scenario::One, 7), (None, "ltest".to_owned()));
        assert_eq!(of(Scenario::Two, 1), some("Banana", "ltest-[key=Banana]"));
        assert_eq!(
            of(Scenario::Three, 40),
            some("James", "jsontest-[key=James]")
        );
    }

    #[test]
    fn one_key_may_be_wanted_by_all() {
        let clients = |keys, key: &str| ClientsPlan {
            keys,
            key: Some(key.to_owned()),
            ..ClientsPlan::default()
        };
        let long = clients(Keys::ExtendedFruits, "Fig");
        assert_eq!(long.wanted_key(), Some(extended_key("Fig")));
        assert_eq!(long.item(3), long.item(4));
        let own = clients(Keys::ExtendedFruits, "order-17");
        assert_eq!(own.item(0).1, "ltest-[key=order-17]");
        let name = clients(Keys::FirstNames, "Timothy");
        assert_eq!(name.item(0).1, "ltest-[key=Timothy]");
    }
}
