//! A subscription as the session sees it.

use crate::request::Mode;

/// One active subscription, with the caller's own state hung on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription<H> {
    /// The client's `LS_subId`.
    pub sub_id: u32,
    /// The mode.
    pub mode: Mode,
    /// Nothing is merged or dropped: always in RAW, else if the client asked for `unfiltered`.
    pub unfiltered: bool,
    /// Whatever the caller keeps per subscription, for example its item slots.
    pub handle: H,
}
