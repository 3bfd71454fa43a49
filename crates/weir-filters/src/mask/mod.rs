//! The filter `mask` replaces members of JSON values by a fixed text. All other bytes stay the
//! same.

mod walk;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{BuildResult, Filter, InvalidKey, RecordEdit, RecordRejection};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct MaskConfig {
    /// Members as paths of names separated by dots, for example `card.number`. `*` matches any
    /// name. Array elements are searched as if they were in the place of the array.
    members: Vec<String>,
    #[serde(default = "stars")]
    with: String,
}

fn stars() -> String {
    "***".to_owned()
}

impl MaskConfig {
    pub(super) fn build(self) -> BuildResult {
        let invalid = |value: &str, remedy| InvalidKey("members", value.to_owned(), remedy);
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
            with: serde_json::Value::from(self.with).to_string(),
        }))
    }
}

#[derive(Debug)]
struct Mask {
    members: Vec<Vec<String>>,
    with: String,
}

impl Filter for Mask {
    /// A value that is not JSON, or too deeply nested, may contain anything, so the whole value is
    /// replaced.
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        let mut is_json = true;
        record.rewrite_value(|value, out| {
            let text = std::str::from_utf8(value).ok();
            let text = text.filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
            let masked = text.and_then(|text| walk::mask(text, &self.members, &self.with, out));
            masked.unwrap_or_else(|| {
                is_json = false;
                out.clear();
                out.extend_from_slice(self.with.as_bytes());
                true
            })
        });
        if !is_json {
            record.count_undecodable();
        }
        Ok(())
    }
}

/// Number of bits in the set of candidates.
const MEMBERS_MAX: usize = 64;
