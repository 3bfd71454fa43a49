//! Fan-out of updates: the items of a shard, their subscribers and values, and what each subscriber
//! receives of an update.
//!
//! [`Delivery`] encodes an update once per frame class and passes the frame to an [`Output`], or
//! queues the values for a client that lags or has limits. The crate has no sockets, threads,
//! clocks or logging. Sessions, connections and framing belong to the caller, which implements
//! [`Output`], [`SessionTable`], [`Subscriber`] and [`SharedFrame`].

mod accepted_diffs;
mod backlog;
mod class;
mod classes;
mod delivery;
mod delivery_mode;
mod encode;
pub mod events;
mod frequency;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod interest;
mod item;
mod item_history;
mod item_table;
mod keys;
mod limits;
mod notice;
mod output;
mod positions;
mod queue;
mod row_table;
mod schema;
mod subscription;
mod work;

pub use self::accepted_diffs::{AcceptedDiffs, ConnectionDiffs};
pub use self::class::ClassKey;
pub use self::delivery::{Delivery, DeliveryCounters, MissedUpdate, NewSubscriber};
pub use self::delivery_mode::{DeliveryMode, QueuePolicy};
pub use self::encode::DiffCounters;
pub use self::frequency::FrequencyLimit;
pub use self::interest::{
    HistoryInterest, Interest, InterestChange, ItemInterest, ItemKey, RowInterest, RowTableConfig,
};
pub use self::item::{Item, ItemName};
pub use self::item_history::{HistoryBackfill, PastUpdate, Retention};
pub use self::item_table::{InterestUpdate, ItemTable, MemberRemoval, TableSize, should_shrink};
pub use self::keys::{ItemAt, MemberSlot, SessionKey};
pub use self::output::{Output, SendOutcome, SessionTable, SharedFrame, Subscriber};
pub use self::positions::{LayoutTopic, PartitionLayout, PositionReport, RecordPosition};
pub use self::row_table::{RowBackfill, RowTable, RowTableCounters};
pub use self::schema::{FieldSchema, SchemaCache};
pub use self::subscription::ItemSubscription;
