//! JSON documents: a plan of all wanted paths, one pass that finds them, texts as the connector
//! makes them.

mod block;
mod document;
mod error;
mod path_tree;
mod reader;
mod scalar;
mod skip;

pub use error::{JsonError, JsonFault};
pub(crate) use path_tree::{NodeId, PathTree};
pub(crate) use reader::{JsonCheck, JsonReader, Missing};
