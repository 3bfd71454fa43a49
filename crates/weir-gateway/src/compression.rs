//! `[compression]` of `gateway.toml`: compression of WebSocket messages.

use serde::Deserialize;

use crate::bounds::bounded;

/// Compression of WebSocket messages with permessage-deflate, once for all clients that share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CompressionConfig {
    /// `true` to negotiate compression with clients that offer it; default `false`.
    pub enabled: bool,
    /// From 1 (fast, the default) to 9 (small).
    #[serde(deserialize_with = "bounded::<1, 9, _, _>")]
    pub level: u32,
    /// Minimum message size in bytes; smaller messages are sent uncompressed. Default 256.
    pub min_bytes: usize,
    /// Maximum bytes that each event loop compresses per second, default 10,000,000. Further
    /// messages are sent uncompressed.
    #[serde(deserialize_with = "bounded::<1, { u64::MAX }, _, _>")]
    pub budget_bytes_per_second: u64,
}

impl Default for CompressionConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            level: 1,
            min_bytes: 256,
            budget_bytes_per_second: 10_000_000,
        }
    }
}

impl CompressionConfig {
    /// Returns a description for the startup log.
    pub fn describe(&self) -> String {
        let (level, min) = (self.level, self.min_bytes);
        match self.enabled {
            true => format!("permessage-deflate, level {level}, messages from {min} bytes"),
            false => "none".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CompressionConfig, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn compression_is_off_by_default() {
        assert_eq!(read(""), Ok(CompressionConfig::default()));
        assert_eq!(CompressionConfig::default().describe(), "none");
        let on = read("enabled = true\nlevel = 6\nmin_bytes = 0").expect("valid configuration");
        assert_eq!(
            on.describe(),
            "permessage-deflate, level 6, messages from 0 bytes"
        );
        assert_eq!(on.budget_bytes_per_second, 10_000_000);
    }

    #[test]
    fn errors_contain_key_value_and_remedy() {
        for (text, words) in [
            ("level = 0", "use 1 to 9"),
            ("level = 10", "use 1 to 9"),
            ("budget_bytes_per_second = 0", "use at least 1"),
            ("min_bytes = -1", "min_bytes"),
            ("levels = 1", "unknown field `levels`"),
        ] {
            let error = read(text).expect_err("a mistake").to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
