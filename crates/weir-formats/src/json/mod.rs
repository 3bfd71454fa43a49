//! Reads JSON documents: one pass finds all wanted paths, and values are converted to text as in
//! the connector.

mod block;
mod decimal;
mod document;
mod error;
mod members;
mod path_tree;
mod reader;
mod scalar;
mod skip;
mod strings;

pub use decimal::NumberForm;
pub use error::JsonError;
pub use members::MemberSink;
pub use path_tree::{NodeId, PathTree, ROOT};
pub use reader::{JsonCheck, JsonReader, Missing};
