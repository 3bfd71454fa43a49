//! `mask`: members of JSON values are replaced by a fixed text; all other bytes stay.

mod walk;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::config::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "mask";

/// Its keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskConfig {
    /// Names of topics, with `*` for anything.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Which way records travel; `produce` if left out.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// Members, by names from the outermost in, with dots between: `card.number`. `*` is any name;
    /// arrays are looked into as if each element stood in their place.
    pub members: Vec<String>,
    /// The text that stands in their place.
    #[serde(default = "stars")]
    pub with: String,
}

fn stars() -> String {
    "***".to_owned()
}

impl MaskConfig {
    pub(super) fn build(&self) -> Result<Box<dyn Filter>, FilterError> {
        let refused = |value: &str, remedy| FilterError {
            filter: NAME,
            key: "members",
            value: value.to_owned(),
            remedy,
        };
        if self.members.is_empty() {
            return Err(refused("[]", "name a member, for example \"card.number\""));
        }
        if self.members.len() > MEMBERS_MAX {
            let count = format!("{} names", self.members.len());
            return Err(refused(&count, "name at most 64"));
        }
        let split = |path: &String| {
            let names: Vec<String> = path.split('.').map(str::to_owned).collect();
            match names.iter().any(String::is_empty) {
                true => Err(refused(path, "put one dot between names, none at the ends")),
                false => Ok(names),
            }
        };
        Ok(Box::new(Mask {
            members: self.members.iter().map(split).collect::<Result<_, _>>()?,
            // Invariant: text is always expressible in JSON.
            with: serde_json::Value::from(self.with.as_str()).to_string(),
        }))
    }
}

#[derive(Debug)]
struct Mask {
    members: Vec<Vec<String>>,
    with: String,
}

impl Filter for Mask {
    /// What is not JSON might hold anything, so all of it is replaced.
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        let mut is_json = true;
        record.rewrite_value(|value, out| {
            let text = std::str::from_utf8(value).ok();
            // The walk relies on it, on its limited depth too.
            let text = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
            match text {
                Some(text) => walk::mask(text, &self.members, &self.with, out),
                None => {
                    is_json = false;
                    out.extend_from_slice(self.with.as_bytes());
                    true
                }
            }
        });
        if !is_json {
            record.count_unreadable();
        }
        Ok(())
    }
}

/// What one number's bits can tell apart.
const MEMBERS_MAX: usize = 64;
