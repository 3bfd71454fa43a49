//! What the clients behind a server ask for, and the gateway's configuration that answers them.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use crate::clients::{KEY_PLACEHOLDER, Scenario};

/// The `clients` table of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// Scenario of the published load test: decides data adapter and items.
    #[serde(deserialize_with = "scenario")]
    pub scenario: Scenario,
    /// The gateway's configuration: a file beside the plan, or one of the built-in plans'.
    /// `@BOOTSTRAP@` and `@TOPIC@` stand for those of the cell.
    pub adapters: String,
    /// The gateway's server settings, a `lightstreamer_conf.xml`: a file beside the plan, or one of the
    /// built-in plans'.
    pub lightstreamer_conf: Option<String>,
    /// Field schema; `weir` is the stamp.
    pub fields: Vec<String>,
}

impl Default for Clients {
    /// Scenario 2, as the plan `keyed` has it.
    fn default() -> Self {
        Self {
            scenario: Scenario::Two,
            adapters: "keyed-adapters.xml".to_owned(),
            lightstreamer_conf: None,
            fields: ["key", "value", "ts", "partition", "offset", "weir"]
                .map(str::to_owned)
                .into(),
        }
    }
}

impl Clients {
    /// The key and the item of client number `index`; no key where everybody gets everything.
    pub(crate) fn item(&self, index: u64) -> (Option<String>, String) {
        let published = self.scenario.corrected();
        if !published.items.contains(KEY_PLACEHOLDER) {
            return (None, published.items);
        }
        let names = published.pool.names(KEYS, false);
        let key = names[usize::try_from(index).unwrap_or(0) % KEYS].clone();
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

    fn of(scenario: Scenario, index: u64) -> (Option<String>, String) {
        let clients = Clients {
            scenario,
            ..Clients::default()
        };
        clients.item(index)
    }

    #[test]
    fn a_record_goes_to_those_who_want_its_key() {
        let per_record = |scenario| {
            let clients = Clients {
                scenario,
                ..Clients::default()
            };
            clients.deliveries_per_record(1000)
        };
        assert_eq!(per_record(Scenario::One), 1000.0);
        assert_eq!(per_record(Scenario::Two), 25.0);
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
}
