//! The proxy between real clients and a real broker: the one in `WEIR_E2E_BOOTSTRAP`, or one
//! started by the tests.

mod api_metrics;
mod audit;
mod clients;
mod cluster;
mod connect;
mod dashboard;
mod ends;
mod equivalence;
mod filter_clients;
mod filters;
mod foreign;
mod hostile;
mod hostile_frames;
mod identities;
mod logins;
mod messages;
mod name_clients;
mod programs;
mod proxy_protocol;
mod reload;
mod reload_spread;
mod rules;
mod sasl;
mod secrets;
mod server_names;
mod streams;
mod support;
mod tls;
mod tokens;
mod tools;
mod tools_equal;
