//! Parameter values that several modules use.

use bounded_static::ToStatic;

use super::params::{LineParams, decimal};
use crate::error::RequestFault;

/// `LS_requested_max_bandwidth`.
#[derive(Clone, Copy, Debug, PartialEq, ToStatic)]
pub enum Bandwidth {
    /// No limit.
    Unlimited,
    /// In kbps (1000 bits per second), above 0.
    Kbps(f64),
}

/// Diff formats that a client accepts; tags other than `P` and `T` are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToStatic)]
pub struct Diffs {
    /// `P`.
    pub json_patch: bool,
    /// `T`.
    pub tlcp_diff: bool,
}

impl Bandwidth {
    pub(super) fn read(params: &LineParams<'_>) -> Result<Option<Self>, RequestFault> {
        params.word("LS_requested_max_bandwidth", |text| match text {
            "unlimited" => Some(Self::Unlimited),
            number => decimal(number).map(Self::Kbps),
        })
    }
}

impl Diffs {
    /// No diffs.
    pub const NONE: Self = Self {
        json_patch: false,
        tlcp_diff: false,
    };
    /// All diff formats.
    pub const ANY: Self = Self {
        json_patch: true,
        tlcp_diff: true,
    };

    pub(super) fn read(params: &LineParams<'_>) -> Self {
        let Some(tags) = params.text("LS_supported_diffs") else {
            return Self::ANY;
        };
        let has = |tag| tags.split(',').any(|candidate| candidate.trim() == tag);
        Self {
            json_patch: has("P"),
            tlcp_diff: has("T"),
        }
    }
}
