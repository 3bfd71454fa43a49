//! Tests against a real broker: `WEIR_E2E_BOOTSTRAP` names one, else one is started.

mod admin;
mod faults;
mod group;
mod ingest;
mod lean;
mod produce;
mod recreate;
mod resume;
mod support;
mod wire;
