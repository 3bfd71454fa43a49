//! Subscriptions of the published load tests: scenarios 1 to 3 with their JSON Patch and text diff
//! variants, and the client that measures the filtering tests.

use strum::{EnumString, IntoStaticStr, VariantArray};

use super::diff_choice::DiffChoice;
use crate::keys::{FIRST_NAMES, FRUITS, extended_key, names_of};

/// Placeholder for a client's key in an item template.
pub const KEY_PLACEHOLDER: &str = "{key}";

/// Scenario of the connector load test, named as in the simulator's parameter `scenarioLKC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
pub enum Scenario {
    /// All clients receive every record.
    #[strum(serialize = "1")]
    One,
    /// Each client subscribes to the records of one of 40 fruits.
    #[strum(serialize = "2")]
    Two,
    /// Each client subscribes to the fields of the JSON records of one of 40 first names.
    #[strum(serialize = "3")]
    Three,
    /// Whole JSON values, whose changes are sent as JSON Patch.
    #[strum(serialize = "3jp")]
    ThreePatch,
    /// Whole JSON values, whose changes are sent as text diffs.
    #[strum(serialize = "3td")]
    ThreeDiff,
}

/// Pool of names for record keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum KeyPool {
    /// Keys of the kinds keyed and json
    Fruits,
    /// Keys of the kinds complex, verycomplex and jsonkeyx
    FirstNames,
}

/// Subscription of the sessions of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscribe {
    /// Adapter set of the session.
    pub adapter_set: String,
    /// Data adapter of the subscription.
    pub data_adapter: String,
    /// Item of a client, with [`KEY_PLACEHOLDER`] for its key.
    pub items: String,
    /// Pool of the keys.
    pub pool: KeyPool,
    /// Field schema, in order.
    pub fields: Vec<String>,
}

impl Scenario {
    /// Returns the name in options and in the simulator's file.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns all names, separated by commas.
    pub fn names() -> String {
        let names: Vec<_> = Self::VARIANTS
            .iter()
            .map(|scenario| scenario.name())
            .collect();
        names.join(", ")
    }

    /// Returns the scenario with that name.
    pub fn of_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Returns the diff formats of the scenario.
    pub fn diffs(self) -> DiffChoice {
        DiffChoice {
            json_patch: self == Self::ThreePatch,
            tlcp_diff: self == Self::ThreeDiff,
        }
    }

    /// Returns the subscription that fits the published connector configuration of the scenario:
    /// its data adapter, its item template, all its fields.
    pub fn corrected(self) -> Subscribe {
        let mut subscribe = match self {
            Self::One => self.subscribe(QUICK_START, "value"),
            Self::Two | Self::ThreePatch | Self::ThreeDiff => {
                self.subscribe(QUICK_START, "key value")
            }
            Self::Three => self.subscribe(JSON_START, JSON_FIELDS),
        };
        // Every published configuration maps these in addition to its own.
        let position = ["ts", "partition", "offset"].map(str::to_owned);
        subscribe.fields.extend(position);
        subscribe
    }

    /// Returns the subscription of the published simulator without changes. In scenarios 1 and 3 it
    /// requests fields that are not mapped, in scenario 2 another data adapter than the published
    /// one.
    pub fn verbatim(self) -> Subscribe {
        let (data_adapter, fields) = match self {
            Self::One | Self::ThreePatch | Self::ThreeDiff => (QUICK_START, "key value"),
            Self::Two => (JSON_START, "key timestamp sndValue intNum ts partition"),
            Self::Three => (
                JSON_START,
                "key changes firstText secondText thirdText fourthText firstnumber secondNumber \
                 thirdNumber fourthNumber hobbies timestamp",
            ),
        };
        self.subscribe(data_adapter, fields)
    }

    fn subscribe(self, data_adapter: &str, fields: &str) -> Subscribe {
        let (items, pool) = match self {
            Self::One => ("ltest", KeyPool::Fruits),
            Self::Two => (LTEST_KEY, KeyPool::Fruits),
            Self::Three => ("jsontest-[key={key}]", KeyPool::FirstNames),
            Self::ThreePatch | Self::ThreeDiff => (LTEST_KEY, KeyPool::FirstNames),
        };
        Subscribe {
            adapter_set: "KafkaConnector".to_owned(),
            data_adapter: data_adapter.to_owned(),
            items: items.to_owned(),
            pool,
            fields: fields.split(' ').map(str::to_owned).collect(),
        }
    }
}

impl KeyPool {
    /// Returns the first `count` names, in their long form if `extended`.
    pub fn names(self, count: usize, extended: bool) -> Vec<String> {
        let names = match self {
            Self::Fruits => names_of(&FRUITS, count),
            Self::FirstNames => names_of(&FIRST_NAMES, count),
        };
        match extended {
            true => names.iter().map(|name| extended_key(name)).collect(),
            false => names,
        }
    }
}

/// Returns the subscription of the client that measures the filtering tests: one item, four fields.
pub fn probe() -> Subscribe {
    Scenario::Two.subscribe(QUICK_START, "timestamp fstValue sndValue intNum")
}

/// Returns the key of that client: a fruit in its short or long form, or the first name that
/// filters search in the JSON keys of kind `jsonkeyx`.
pub fn probe_key(extended: bool, json_key: bool) -> String {
    match (json_key, extended) {
        (true, _) => "Timothy".to_owned(),
        (false, true) => extended_key("Banana"),
        (false, false) => "Banana".to_owned(),
    }
}

const QUICK_START: &str = "QuickStart";
const JSON_START: &str = "JsonStart-k";
const JSON_FIELDS: &str = "key timestamp firstText secondText thirdText fourthText firstnumber \
    secondNumber thirdNumber fourthNumber hobbies";
const LTEST_KEY: &str = "ltest-[key={key}]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrected_scenarios_request_mapped_fields() {
        let mapped = |scenario: Scenario| match scenario {
            Scenario::One => "value",
            Scenario::Two | Scenario::ThreePatch | Scenario::ThreeDiff => "key value",
            Scenario::Three => {
                "key timestamp firstText secondText thirdText fourthText firstnumber secondNumber \
                 thirdNumber fourthNumber hobbies"
            }
        };
        for &scenario in Scenario::VARIANTS {
            let fields = format!("{} ts partition offset", mapped(scenario));
            assert_eq!(scenario.corrected().fields.join(" "), fields);
            assert_eq!(Scenario::of_name(scenario.name()), Some(scenario));
        }
        assert_eq!(Scenario::of_name("4"), None);
    }

    #[test]
    fn verbatim_scenarios_keep_published_errors() {
        let two = Scenario::Two.verbatim();
        assert_eq!(two.data_adapter, "JsonStart-k");
        assert!(!two.fields.contains(&"value".to_owned()));
        let three = Scenario::Three.verbatim();
        assert!(three.fields.contains(&"changes".to_owned()));
    }

    #[test]
    fn probe_has_one_key() {
        assert_eq!(probe_key(false, false), "Banana");
        assert!(probe_key(true, false).starts_with("BananaBananaB"));
        assert_eq!(probe_key(false, true), "Timothy");
        let names = KeyPool::FirstNames.names(2, false);
        assert_eq!(names, ["James", "John"]);
        assert_eq!(KeyPool::Fruits.names(1, true)[0].len(), 500);
    }
}
