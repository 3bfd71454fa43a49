//! Subscriptions of a session.

use crate::request::Mode;

/// One active subscription with the caller's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription<H> {
    /// The client's `LS_subId`.
    pub sub_id: u32,
    /// Subscription mode.
    pub mode: Mode,
    /// No update is conflated or dropped: always in RAW, otherwise if the client requested
    /// `unfiltered`.
    pub unfiltered: bool,
    /// State of the caller, for example its item slots.
    pub handle: H,
}
