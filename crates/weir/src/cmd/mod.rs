//! One module per command.

pub(crate) mod agent;
pub(crate) mod bench;
pub(crate) mod bench_check_driver;
pub(crate) mod bench_common;
pub(crate) mod bench_compare;
pub(crate) mod bench_find_max;
pub(crate) mod bench_list;
pub(crate) mod bench_progress;
pub(crate) mod bench_run_args;
pub(crate) mod clients_args;
pub(crate) mod clients_progress;
pub(crate) mod demo;
pub(crate) mod gateway;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod load_clients;
pub(crate) mod load_common;
pub(crate) mod load_consume;
pub(crate) mod load_floor;
pub(crate) mod load_local;
pub(crate) mod load_produce;
pub(crate) mod load_relay;
pub(crate) mod progress_block;
pub(crate) mod proxy;
mod server;
pub(crate) mod terminal;
pub(crate) mod trust_args;
