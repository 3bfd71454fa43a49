//! Lines of the Adapter Remoting Infrastructure protocol (ARI), both directions, for remote
//! Metadata Adapters.
//!
//! A line is `ID|METHOD|TYPE|VALUE|...`. Every length and count has a limit. An error either spoils
//! one reply, or the connection ([`AriError::is_fatal`]).

mod error;
mod line;
mod notification;
mod reply;
mod request;
mod text;
mod token_reader;
mod token_writer;
mod version;

pub use error::AriError;
pub use line::{LINE_BYTES_MAX, LineBuffer};
pub use notification::{AdapterLine, AdapterNotification, NotificationResult};
pub use reply::{AdapterException, AdapterReply, ExceptionKind, ItemData, ReplyLine, UserItemData};
pub use request::{AdapterMethod, AdapterRequest, Parameter, TableInfo, TableStatistics};
pub use version::{AdapterPeer, AriVersion};
