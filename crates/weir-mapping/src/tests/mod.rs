//! Property tests that use the bodies of the fuzz targets.

#[path = "../../tests/common/mod.rs"]
mod common;
mod json_model;
mod properties;
