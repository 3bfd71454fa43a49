//! The number of an answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of an answer, for trends over several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headline {
    /// Description including the load, for example `gateway, server cores at 1,000 clients`. Only
    /// headlines with the same description are comparable.
    pub name: String,
    /// Value.
    pub value: f64,
}
