//! Compares Weir's readers of Avro and Protobuf with `apache-avro` and `prost-reflect`: costs, and
//! values of random schemas and records.

pub mod avro;
pub mod avro_model;
pub mod cost;
pub mod protobuf;
mod source;
