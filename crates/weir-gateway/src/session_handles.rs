//! Public names of sessions, for operators and the audit log.

use std::hash::{BuildHasher, RandomState};

use weir_tlcp::server::{SessionId, SessionLocation};

/// Derives the handles of sessions from their ids, so that sessions need no memory for them.
///
/// A handle has the location of the session and a hash of its id with a random key. It does not
/// disclose the id, which is a bearer secret, and is different after a restart.
#[derive(Debug, Default)]
pub(crate) struct SessionHandles {
    key: RandomState,
}

impl SessionHandles {
    /// Returns the handle of a session.
    pub(crate) fn of(&self, id: &SessionId) -> String {
        let hash = self.key.hash_one(id.as_str());
        let location = SessionId::location_of(id.as_str());
        let location = location.map_or((0, 0), |it| (it.shard, it.slot));
        format!("{:x}-{:x}-{hash:016x}", location.0, location.1)
    }

    /// Returns the location in a handle. The caller must compare the handle of the session there.
    pub(crate) fn location_of(handle: &str) -> Option<SessionLocation> {
        let mut parts = handle.split('-');
        let (shard, slot) = (parts.next()?, parts.next()?);
        Some(SessionLocation {
            shard: u16::from_str_radix(shard, 16).ok()?,
            slot: u32::from_str_radix(slot, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_has_the_location_and_not_the_id() {
        let handles = SessionHandles::default();
        let location = SessionLocation {
            shard: 3,
            slot: 4_711,
        };
        let [one, other] = [[1; 16], [2; 16]].map(|random| SessionId::new(location, &random));
        let handle = handles.of(&one);
        assert_eq!(handle, handles.of(&one));
        assert_ne!(handle, handles.of(&other));
        assert_ne!(handle, SessionHandles::default().of(&one));
        assert_eq!(SessionHandles::location_of(&handle), Some(location));
        assert!(!handle.contains(&one.as_str()[1..6]));
        for bad in ["", "1", "x-1-0", "10000-1-0", "-1-2"] {
            assert_eq!(SessionHandles::location_of(bad), None, "{bad}");
        }
    }
}
