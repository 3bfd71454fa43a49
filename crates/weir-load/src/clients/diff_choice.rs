//! Diff formats that clients request.

use serde::{Deserialize, Serialize};
use weir_tlcp::request::Diffs;

/// Diff formats that a session accepts in addition to whole values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffChoice {
    /// JSON Patch, `^P`.
    pub json_patch: bool,
    /// TLCP-diff, `^T`.
    pub tlcp_diff: bool,
}

/// Error for an unknown choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("give none, json-patch, tlcp-diff, or json-patch,tlcp-diff")]
pub struct UnknownDiffs;

impl DiffChoice {
    /// Whole values only.
    pub const NONE: Self = Self {
        json_patch: false,
        tlcp_diff: false,
    };

    /// Parses `none`, or `json-patch` and `tlcp-diff` separated by a comma.
    pub fn parse(text: &str) -> Result<Self, UnknownDiffs> {
        let mut choice = Self::NONE;
        for word in text.split(',').filter(|_| text != "none") {
            match word {
                "json-patch" => choice.json_patch = true,
                "tlcp-diff" => choice.tlcp_diff = true,
                _ => return Err(UnknownDiffs),
            }
        }
        Ok(choice)
    }

    /// Returns `true` if at least one format is chosen.
    pub fn any(self) -> bool {
        self != Self::NONE
    }

    /// Returns the value of `LS_supported_diffs`.
    pub(super) fn tags(self) -> &'static str {
        match (self.json_patch, self.tlcp_diff) {
            (false, false) => "",
            (true, false) => "P",
            (false, true) => "T",
            (true, true) => "P,T",
        }
    }

    /// Returns the form that [`Self::parse`] reads.
    pub fn name(self) -> &'static str {
        match (self.json_patch, self.tlcp_diff) {
            (false, false) => "none",
            (true, false) => "json-patch",
            (false, true) => "tlcp-diff",
            (true, true) => "json-patch,tlcp-diff",
        }
    }

    pub(crate) fn accepted(self) -> Diffs {
        Diffs {
            json_patch: self.json_patch,
            tlcp_diff: self.tlcp_diff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_names_round_trip() {
        for name in ["none", "json-patch", "tlcp-diff", "json-patch,tlcp-diff"] {
            assert_eq!(DiffChoice::parse(name).map(DiffChoice::name), Ok(name));
        }
        for text in ["", "P", "json-patch,", "none,json-patch"] {
            assert!(DiffChoice::parse(text).is_err(), "{text}");
        }
    }
}
