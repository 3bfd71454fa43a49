//! Reads JSON documents: one pass finds all wanted paths, and values are converted to text as in
//! the connector.

mod block;
mod document;
mod error;
mod path_tree;
mod reader;
mod scalar;
mod skip;

pub(crate) use error::JsonError;
pub(crate) use path_tree::{NodeId, PathTree};
pub(crate) use reader::{JsonCheck, JsonReader, Missing};
