//! Supported protocol versions and their differences.

use crate::request::Diffs;

/// Protocol version of a client, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 2.1.0: no diffs. SDKs of this version end their session on unknown lines.
    V2_1,
    /// 2.4.0.
    V2_4,
    /// 2.5.0, the default version.
    V2_5,
}

/// Properties of a version. Requests of older versions need no entry: their deprecated parameters
/// have no effect here.
struct Features {
    version: Version,
    /// `LS_protocol` of HTTP requests.
    name: &'static str,
    /// WebSocket subprotocol, which the server must repeat exactly.
    subprotocol: &'static str,
    /// Clients without `LS_supported_diffs` accept `^P` and `^T`.
    diffs: bool,
}

const TABLE: [Features; 3] = [
    Features {
        version: Version::V2_1,
        name: "TLCP-2.1.0",
        subprotocol: "TLCP-2.1.0.lightstreamer.com",
        diffs: false,
    },
    Features {
        version: Version::V2_4,
        name: "TLCP-2.4.0",
        subprotocol: "TLCP-2.4.0.lightstreamer.com",
        diffs: true,
    },
    Features {
        version: Version::V2_5,
        name: crate::PROTOCOL,
        subprotocol: crate::WEBSOCKET_SUBPROTOCOL,
        diffs: true,
    },
];

impl Version {
    /// The latest version.
    pub const NEWEST: Self = Self::V2_5;

    /// Returns all versions in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.version)
    }

    /// Returns the version with this `LS_protocol`.
    pub fn named(name: &str) -> Option<Self> {
        let row = TABLE.iter().find(|row| row.name == name)?;
        Some(row.version)
    }

    /// Returns the latest supported version among the subprotocols that a client offers.
    pub fn offered<'a>(offers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let known = |offer| TABLE.iter().find(|row| row.subprotocol == offer);
        offers.filter_map(known).map(|row| row.version).max()
    }

    /// Returns the `LS_protocol` of the version.
    pub fn name(self) -> &'static str {
        self.features().name
    }

    /// Returns the WebSocket subprotocol of the version.
    pub fn subprotocol(self) -> &'static str {
        self.features().subprotocol
    }

    /// Returns the diff formats that a client accepts, depending on its version and its request.
    pub fn diffs(self, requested: Diffs) -> Diffs {
        match self.features().diffs {
            true => requested,
            false => Diffs::NONE,
        }
    }

    fn features(self) -> &'static Features {
        &TABLE[self as usize]
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
