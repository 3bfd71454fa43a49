//! Tests of the whole crate through its public types, and properties that use the bodies of the
//! fuzz targets.

mod command;
pub(crate) mod common;
mod explain;
mod json;
mod json_model;
mod properties;
mod published;
mod topics;
mod types;
mod wildcard;
