//! Records of independent writers, with a real schema registry: each gives the same fields as with
//! a local schema file, also after a new version, during and after outages of the registry, and
//! over TLS with a login. Faults that a real registry does not produce are in `registry.rs`.

mod outage;
mod secured;
#[path = "../support/mod.rs"]
mod support;
mod test_env;
mod writers;
