//! Messages, schemas and errors, with results of the Java library and of `prost-reflect`.

mod common;
mod errors;
mod golden;
mod oracle;
mod schemas;
