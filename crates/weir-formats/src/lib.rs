//! Extraction paths and readers of JSON, Avro and Protobuf: skip plans, members, texts.
//!
//! A reader gets the wanted paths once and then finds their values in each document in one pass. It
//! converts values to text as the connector does.
//!
//! The crate has no side effects. It opens no files, reads neither environment nor clock, starts no
//! threads and does not log.

pub mod avro;
pub mod error;
pub mod expression;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod json;
pub mod number;
pub mod protobuf;
pub mod selector_value;
pub mod utf8;
mod varint;
pub mod white_space;
