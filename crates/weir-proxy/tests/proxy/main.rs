//! The proxy between real clients and a real broker: `WEIR_E2E_BOOTSTRAP` names one, else one is
//! started.

mod clients;
mod cluster;
mod ends;
mod filter_clients;
mod filters;
mod foreign;
mod hostile;
mod hostile_frames;
mod sasl;
mod support;
mod tls;
mod tools;
