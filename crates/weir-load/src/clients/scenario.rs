//! Subscriptions of the published load tests: scenarios 1 to 3 with their JSON Patch and text diff
//! variants, and the client that measures the filtering tests.

use super::diff_choice::DiffChoice;
use crate::keys::{FIRST_NAMES, FRUITS, extended_key, names_of};

/// Placeholder for a client's key in an item template.
pub const KEY_PLACEHOLDER: &str = "{key}";

/// Scenario of the connector load test, named as in the simulator's parameter `scenarioLKC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// `1`: all clients receive every record.
    One,
    /// `2`: each client subscribes to the records of one of 40 fruits.
    Two,
    /// `3`: each client subscribes to the fields of the JSON records of one of 40 first names.
    Three,
    /// `3jp`: whole JSON values, whose changes are sent as JSON Patch.
    ThreePatch,
    /// `3td`: whole JSON values, whose changes are sent as text diffs.
    ThreeDiff,
}

/// Pool of names for record keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPool {
    /// Kinds `keyed` and `json`.
    Fruits,
    /// Kinds `complex`, `verycomplex` and `jsonkeyx`.
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
    /// All scenarios, in the order of their names.
    pub const ALL: [Self; 5] = [
        Self::One,
        Self::Two,
        Self::Three,
        Self::ThreePatch,
        Self::ThreeDiff,
    ];

    /// Returns the name in options and in the simulator's file.
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::Three => "3",
            Self::ThreePatch => "3jp",
            Self::ThreeDiff => "3td",
        }
    }

    /// Returns the scenario with that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|scenario| scenario.name() == name)
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
        match self {
            Self::One => subscribe("QuickStart", "ltest", KeyPool::Fruits, "value"),
            Self::Two => subscribe(
                "QuickStart",
                "ltest-[key={key}]",
                KeyPool::Fruits,
                "key value",
            ),
            Self::Three => subscribe(
                "JsonStart-k",
                "jsontest-[key={key}]",
                KeyPool::FirstNames,
                "key timestamp firstText secondText thirdText fourthText firstnumber secondNumber \
                 thirdNumber fourthNumber hobbies",
            ),
            Self::ThreePatch | Self::ThreeDiff => subscribe(
                "QuickStart",
                "ltest-[key={key}]",
                KeyPool::FirstNames,
                "key value",
            ),
        }
        .with_position()
    }

    /// Returns the subscription of the published simulator without changes. In scenarios 1 and 3 it
    /// requests fields that are not mapped, in scenario 2 another data adapter than the published
    /// one.
    pub fn verbatim(self) -> Subscribe {
        match self {
            Self::One => subscribe("QuickStart", "ltest", KeyPool::Fruits, "key value"),
            Self::Two => subscribe(
                "JsonStart-k",
                "ltest-[key={key}]",
                KeyPool::Fruits,
                "key timestamp sndValue intNum ts partition",
            ),
            Self::Three => subscribe(
                "JsonStart-k",
                "jsontest-[key={key}]",
                KeyPool::FirstNames,
                "key changes firstText secondText thirdText fourthText firstnumber secondNumber \
                 thirdNumber fourthNumber hobbies timestamp",
            ),
            Self::ThreePatch | Self::ThreeDiff => subscribe(
                "QuickStart",
                "ltest-[key={key}]",
                KeyPool::FirstNames,
                "key value",
            ),
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
    subscribe(
        "QuickStart",
        "ltest-[key={key}]",
        KeyPool::Fruits,
        "timestamp fstValue sndValue intNum",
    )
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

fn subscribe(data_adapter: &str, items: &str, pool: KeyPool, fields: &str) -> Subscribe {
    Subscribe {
        adapter_set: "KafkaConnector".to_owned(),
        data_adapter: data_adapter.to_owned(),
        items: items.to_owned(),
        pool,
        fields: fields.split(' ').map(str::to_owned).collect(),
    }
}

impl Subscribe {
    /// Adds the three fields that every published configuration maps in addition to its own.
    fn with_position(mut self) -> Self {
        let fields = ["ts", "partition", "offset"].map(str::to_owned);
        self.fields.extend(fields);
        self
    }
}

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
        for scenario in Scenario::ALL {
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
