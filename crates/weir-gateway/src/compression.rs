//! `[compression]` of `gateway.toml`: compression of WebSocket messages.

use serde::Deserialize;

/// Compression of WebSocket messages with permessage-deflate, once for all clients that share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compression {
    /// `true` to negotiate compression with clients that offer it; default `false`.
    pub enabled: bool,
    /// From 1 (fast, the default) to 9 (small).
    pub level: u32,
    /// Minimum message size in bytes; smaller messages are sent uncompressed. Default 256.
    pub min_bytes: usize,
    /// Maximum bytes that each event loop compresses per second, default 10,000,000. Further
    /// messages are sent uncompressed.
    pub budget_bytes_per_second: u64,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            enabled: false,
            level: 1,
            min_bytes: 256,
            budget_bytes_per_second: 10_000_000,
        }
    }
}

impl Compression {
    /// Checks the values; returns the first invalid one.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=9).contains(&self.level) {
            let level = self.level;
            return Err(format!(
                "compression.level = {level}: use 1 (fast) to 9 (small), or enabled = false"
            ));
        }
        if self.budget_bytes_per_second == 0 {
            return Err(
                "compression.budget_bytes_per_second = 0: use at least 1, or enabled = false"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Returns a description for the startup log.
    pub fn describe(&self) -> String {
        match self.enabled {
            true => format!(
                "permessage-deflate, level {}, messages from {} bytes",
                self.level, self.min_bytes
            ),
            false => "none".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Compression, String> {
        let read: Compression = toml::from_str(text).map_err(|error| error.to_string())?;
        read.check().map(|()| read)
    }

    #[test]
    fn compression_is_off_by_default() {
        assert_eq!(read(""), Ok(Compression::default()));
        assert_eq!(Compression::default().describe(), "none");
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
            ("level = 0", "compression.level = 0: use 1 (fast) to 9"),
            ("level = 10", "compression.level = 10: use 1 (fast) to 9"),
            (
                "budget_bytes_per_second = 0",
                "compression.budget_bytes_per_second = 0: use at least 1",
            ),
            ("min_bytes = -1", "min_bytes"),
            ("levels = 1", "unknown field `levels`"),
        ] {
            let error = read(text).expect_err("a mistake");
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
