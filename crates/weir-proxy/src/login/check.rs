//! Result of a check of credentials.

use weir_identity::Principal;

/// Result of a check of credentials.
#[derive(Debug)]
pub(crate) enum CheckOutcome {
    /// They belong to this principal, for this time in milliseconds; `None`: without an end.
    Right(Box<Principal>, Option<u64>),
    /// They are wrong, for this reason as one word.
    Wrong(&'static str),
    /// Keys are being fetched.
    Pending,
}
