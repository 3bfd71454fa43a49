//! Helpers of the tests of this crate.
#![allow(dead_code)] // each test uses some of them

pub(crate) mod auth;
pub(crate) mod model;
pub(crate) mod rules;
pub(crate) mod signer;

use proptest::prelude::ProptestConfig;

/// Returns the configuration of a property test; `PROPTEST_CASES` overrides the number of cases.
pub(crate) fn property_config(cases: u32) -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    let wanted = wanted.and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(cases),
        // The inputs are printed; there is no place for a file next to `lib.rs`.
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
