//! Tests against a Kafka broker: the one in `WEIR_E2E_BOOTSTRAP`, or a new one.

mod admin;
mod cluster;
mod faults;
mod group;
mod ingest;
mod lean;
mod produce;
mod recreate;
mod resume;
mod secured;
mod support;
mod transactions;
mod wire;
