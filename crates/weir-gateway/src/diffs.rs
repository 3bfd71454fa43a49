//! `[diffs]` of `gateway.toml`: diff formats for all Kafka connections and for individual ones. The
//! defaults can come from `lightstreamer_conf.xml`.

use std::collections::BTreeMap;

use serde::Deserialize;
use weir_tlcp::diff::{DiffFormat, DiffOptions, DiffOrder};

use crate::error::InvalidConfig;

/// Default of `budget_bytes_per_second`: about a tenth of a core.
const BUDGET_BYTES_PER_SECOND: u64 = 100_000_000;

/// The checked diff configuration of all Kafka connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffConfig {
    /// Options of Kafka connections without a table `[diffs.connection.NAME]`.
    pub general: DiffOptions,
    /// Options by connection name.
    pub connections: BTreeMap<String, DiffOptions>,
    /// Maximum bytes of values that each event loop compares per second, default 100,000,000.
    /// Further values are sent in full.
    pub budget_bytes_per_second: u64,
}

impl Default for DiffConfig {
    fn default() -> Self {
        Self {
            general: DiffOptions::default(),
            connections: BTreeMap::new(),
            budget_bytes_per_second: BUDGET_BYTES_PER_SECOND,
        }
    }
}

impl DiffConfig {
    /// Returns the options of a connection.
    pub fn of(&self, connection: &str) -> &DiffOptions {
        self.connections.get(connection).unwrap_or(&self.general)
    }

    /// Returns the diff formats of a connection in the order of their use, as text for operators.
    pub fn describe(&self, connection: &str) -> String {
        let options = self.of(connection);
        let format = |format| match format {
            DiffFormat::JsonPatch => {
                let min = options.json_patch_min_bytes;
                format!("json_patch (^P) from {min} bytes")
            }
            DiffFormat::TlcpDiff => {
                let min = options.tlcp_diff_min_bytes;
                format!("tlcp_diff (^T) from {min} bytes")
            }
        };
        let formats: Vec<_> = options.order.formats().map(format).collect();
        match formats.is_empty() {
            true => "none".to_owned(),
            false => formats.join(", then "),
        }
    }
}

/// `[diffs]` as written in the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawDiffs {
    /// Formats in the order of their use; default none, so values are sent in full.
    order: Option<Vec<RawDiffFormat>>,
    /// Minimum size of values for which JSON Patch is tried.
    json_patch_min_bytes: Option<usize>,
    /// Minimum size of values for which TLCP-diff is tried.
    tlcp_diff_min_bytes: Option<usize>,
    /// Maximum size of values that are compared; larger ones are sent in full.
    value_bytes_max: Option<usize>,
    /// `true`: single-letter numbers in TLCP-diffs, for old SDKs.
    portable: Option<bool>,
    /// Bytes of values that each event loop compares per second, default 100,000,000.
    budget_bytes_per_second: Option<u64>,
    /// Formats of single Kafka connections, by name.
    connection: BTreeMap<String, RawConnectionDiffs>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
struct RawConnectionDiffs {
    order: Option<Vec<RawDiffFormat>>,
    json_patch_min_bytes: Option<usize>,
    tlcp_diff_min_bytes: Option<usize>,
    value_bytes_max: Option<usize>,
    portable: Option<bool>,
}

/// A format by Weir's name or by its name in `lightstreamer_conf.xml`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) enum RawDiffFormat {
    #[serde(rename = "json_patch", alias = "jsonpatch")]
    JsonPatch,
    #[serde(rename = "tlcp_diff", alias = "diff_match_patch")]
    TlcpDiff,
}

impl From<RawDiffFormat> for DiffFormat {
    fn from(format: RawDiffFormat) -> Self {
        match format {
            RawDiffFormat::JsonPatch => Self::JsonPatch,
            RawDiffFormat::TlcpDiff => Self::TlcpDiff,
        }
    }
}

impl RawDiffs {
    /// Returns `base` with the changes of the file, for all connections and for individual ones.
    ///
    /// # Errors
    /// Returns an error for a connection that does not exist.
    pub(crate) fn applied_to(
        self,
        base: &DiffOptions,
        connections: &[&str],
    ) -> Result<DiffConfig, InvalidConfig> {
        let general = RawConnectionDiffs {
            order: self.order,
            json_patch_min_bytes: self.json_patch_min_bytes,
            tlcp_diff_min_bytes: self.tlcp_diff_min_bytes,
            value_bytes_max: self.value_bytes_max,
            portable: self.portable,
        }
        .applied_to(base);
        let mut individual = BTreeMap::new();
        for (name, options) in self.connection {
            if !connections.contains(&name.as_str()) {
                let known = connections.join(", ");
                return Err(InvalidConfig::NoDiffConnection { name, known });
            }
            individual.insert(name, options.applied_to(&general));
        }
        Ok(DiffConfig {
            general,
            connections: individual,
            budget_bytes_per_second: self
                .budget_bytes_per_second
                .unwrap_or(BUDGET_BYTES_PER_SECOND),
        })
    }
}

impl RawConnectionDiffs {
    fn applied_to(self, base: &DiffOptions) -> DiffOptions {
        let order =
            |formats: Vec<RawDiffFormat>| DiffOrder::of(formats.into_iter().map(DiffFormat::from));
        DiffOptions {
            order: self.order.map_or(base.order, order),
            json_patch_min_bytes: self
                .json_patch_min_bytes
                .unwrap_or(base.json_patch_min_bytes),
            tlcp_diff_min_bytes: self.tlcp_diff_min_bytes.unwrap_or(base.tlcp_diff_min_bytes),
            value_bytes_max: self.value_bytes_max.unwrap_or(base.value_bytes_max),
            portable: self.portable.unwrap_or(base.portable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_options_override_general_ones() {
        let text = r#"
            order = ["jsonpatch"]
            json_patch_min_bytes = 500
            [connection.A]
            order = ["diff_match_patch", "json_patch"]
            portable = true
        "#;
        let raw: RawDiffs = toml::from_str(text).expect("valid");
        let base = DiffOptions {
            value_bytes_max: 10,
            ..DiffOptions::default()
        };
        let diffs = raw
            .clone()
            .applied_to(&base, &["A", "B"])
            .expect("A exists");
        let formats = |name| diffs.of(name).order.formats().collect::<Vec<_>>();
        assert_eq!(formats("B"), [DiffFormat::JsonPatch]);
        assert_eq!(formats("A"), [DiffFormat::TlcpDiff, DiffFormat::JsonPatch]);
        let own = diffs.of("A");
        assert!(own.portable && !diffs.of("B").portable);
        assert_eq!((own.json_patch_min_bytes, own.value_bytes_max), (500, 10));
        let error = raw
            .applied_to(&base, &["B"])
            .expect_err("connection A is missing");
        assert_eq!(
            error.to_string(),
            "diffs.connection.A: no such connection; connections: B"
        );
        assert_eq!(diffs.describe("B"), "json_patch (^P) from 500 bytes");
        assert_eq!(
            diffs.describe("A"),
            "tlcp_diff (^T) from 50 bytes, then json_patch (^P) from 500 bytes"
        );
        assert_eq!(DiffConfig::default().describe("A"), "none");
    }
}
