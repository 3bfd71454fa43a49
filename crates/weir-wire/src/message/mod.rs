//! Any message of any API as a tree of values, by Kafka's message definitions.
//!
//! For code that reads, removes or adds parts of many kinds of messages. Unknown tagged fields are
//! retained. Where a few fields of one message matter, the modules next to this one are cheaper.

mod decode;
mod definition;
mod encode;
mod value;

pub use decode::decode;
pub use definition::{ApiDefinition, FieldDefinition, StructDefinition, api};
pub use encode::encode;
pub use value::{MessageRow, Value};

#[cfg(test)]
mod tests;
