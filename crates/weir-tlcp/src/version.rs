//! Supported protocol versions and their differences.

use bounded_static::ToStatic;

use crate::request::Diffs;

/// Protocol version of a client, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ToStatic)]
pub enum Version {
    /// 2.1.0: no diffs. SDKs of this version end their session on unknown lines.
    V2_1,
    /// 2.4.0.
    V2_4,
    /// 2.5.0, the default version.
    V2_5,
}

/// Versions in ascending order, with the `LS_protocol` of HTTP requests and the WebSocket
/// subprotocol. Requests of older versions need no entry: their deprecated parameters have no
/// effect here.
const TABLE: [(Version, &str, &str); 3] = [
    (Version::V2_1, "TLCP-2.1.0", "TLCP-2.1.0.lightstreamer.com"),
    (Version::V2_4, "TLCP-2.4.0", "TLCP-2.4.0.lightstreamer.com"),
    (Version::V2_5, crate::PROTOCOL, crate::WEBSOCKET_SUBPROTOCOL),
];

impl Version {
    /// The latest version.
    pub const NEWEST: Self = Self::V2_5;

    /// Returns all versions in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// Returns the version with this `LS_protocol`.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|version| version.name() == name)
    }

    /// Returns the latest supported version among the subprotocols that a client offers.
    pub fn offered<'a>(offers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let known = |offer| Self::all().find(|version| version.subprotocol() == offer);
        offers.filter_map(known).max()
    }

    /// Returns the `LS_protocol` of the version.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Returns the WebSocket subprotocol of the version, which the server must repeat exactly.
    pub fn subprotocol(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// Returns the diff formats that a client accepts, depending on its version and its request.
    /// From 2.4, clients without `LS_supported_diffs` accept all.
    pub fn diffs(self, requested: Diffs) -> Diffs {
        match self >= Self::V2_4 {
            true => requested,
            false => Diffs::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_table_is_sorted_by_version() {
        assert!(
            Version::all()
                .enumerate()
                .all(|(row, one)| row == one as usize)
        );
        assert_eq!(Version::all().max(), Some(Version::NEWEST));
    }

    #[test]
    fn versions_are_found_by_both_names() {
        for version in Version::all() {
            assert_eq!(Version::named(version.name()), Some(version));
            let offers = ["x", version.subprotocol(), "TLCP-2.0.0.lightstreamer.com"];
            assert_eq!(Version::offered(offers.into_iter()), Some(version));
            let parts = [version.name(), ".lightstreamer.com"].concat();
            assert_eq!(version.subprotocol(), parts);
        }
        for other in ["TLCP-2.0.0", "TLCP-2.2.0", "TLCP-2.3.0", "tlcp-2.5.0", ""] {
            assert_eq!(Version::named(other), None, "{other}");
        }
    }

    #[test]
    fn latest_offered_version_is_selected() {
        let offers = Version::all().map(Version::subprotocol);
        assert_eq!(Version::offered(offers), Some(Version::NEWEST));
        assert_eq!(Version::offered(std::iter::empty()), None);
    }

    #[test]
    fn diffs_need_version_2_4() {
        assert_eq!(Version::V2_1.diffs(Diffs::ANY), Diffs::NONE);
        assert_eq!(Version::V2_4.diffs(Diffs::ANY), Diffs::ANY);
        assert_eq!(Version::V2_5.diffs(Diffs::NONE), Diffs::NONE);
    }
}
