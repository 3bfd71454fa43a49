//! The filter `mask` replaces members of JSON values by a fixed text. All other bytes stay the
//! same.

mod walk;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::scope::{all_topics, on_produce};
use super::{Direction, Filter, FilterError, RecordEdit, RecordRejection};

pub(super) const NAME: &str = "mask";

/// Configuration of the filter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskConfig {
    /// Topic names; `*` matches any characters.
    #[serde(default = "all_topics")]
    pub topics: Vec<String>,
    /// Directions, by default `produce`.
    #[serde(default = "on_produce")]
    pub on: Vec<Direction>,
    /// Members as paths of names separated by dots, for example `card.number`. `*` matches any
    /// name. Array elements are searched as if they were in the place of the array.
    pub members: Vec<String>,
    /// Replacement text.
    #[serde(default = "stars")]
    pub with: String,
}

fn stars() -> String {
    "***".to_owned()
}

impl MaskConfig {
    pub(super) fn build(&self) -> Result<Box<dyn Filter>, FilterError> {
        let invalid = |value: &str, remedy| FilterError {
            filter: NAME,
            key: "members",
            value: value.to_owned(),
            remedy,
        };
        if self.members.is_empty() {
            return Err(invalid("[]", "name a member, for example \"card.number\""));
        }
        if self.members.len() > MEMBERS_MAX {
            let count = format!("{} names", self.members.len());
            return Err(invalid(&count, "name at most 64"));
        }
        let split = |path: &String| {
            let names: Vec<String> = path.split('.').map(str::to_owned).collect();
            match names.iter().any(String::is_empty) {
                true => Err(invalid(
                    path,
                    "use one dot between names and none at the ends",
                )),
                false => Ok(names),
            }
        };
        Ok(Box::new(Mask {
            members: self.members.iter().map(split).collect::<Result<_, _>>()?,
            // Invariant: any text can be written in JSON.
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
    /// A value that is not JSON may contain anything, so the whole value is replaced.
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        let mut is_json = true;
        record.rewrite_value(|value, out| {
            let text = std::str::from_utf8(value).ok();
            // The masker relies on valid JSON and on its limited depth.
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
            record.count_undecodable();
        }
        Ok(())
    }
}

/// Number of bits in the set of candidates.
const MEMBERS_MAX: usize = 64;
