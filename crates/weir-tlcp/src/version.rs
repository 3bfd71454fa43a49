//! Versions of the protocol that are served, and what differs between them.

use crate::request::Diffs;

/// A version of TLCP that a client may speak. Older ones sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 2.1.0: no differences; an SDK ends its session on a line that it does not know.
    V2_1,
    /// 2.4.0.
    V2_4,
    /// 2.5.0, the version of all that is not asked for otherwise.
    V2_5,
}

/// What sets a version apart. Requests of older versions need no row of their own: their other
/// spellings are parameters without effect here.
struct Features {
    version: Version,
    /// `LS_protocol` of HTTP requests.
    name: &'static str,
    /// Offered for a WebSocket; the server must echo it exactly.
    subprotocol: &'static str,
    /// A client without `LS_supported_diffs` reads `^P` and `^T`.
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
    /// The newest version.
    pub const NEWEST: Self = Self::V2_5;

    /// All versions, the oldest first.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.version)
    }

    /// Returns the version with this `LS_protocol`.
    pub fn named(name: &str) -> Option<Self> {
        let row = TABLE.iter().find(|row| row.name == name)?;
        Some(row.version)
    }

    /// Returns the newest version among the subprotocols that a client offers.
    pub fn offered<'a>(offers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let known = |offer| TABLE.iter().find(|row| row.subprotocol == offer);
        offers.filter_map(known).map(|row| row.version).max()
    }

    /// Returns its `LS_protocol`.
    pub fn name(self) -> &'static str {
        self.features().name
    }

    /// Returns its WebSocket subprotocol.
    pub fn subprotocol(self) -> &'static str {
        self.features().subprotocol
    }

    /// Returns the differences that a client of this version accepts, of those it has asked for.
    pub fn diffs(self, asked: Diffs) -> Diffs {
        match self.features().diffs {
            true => asked,
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
    fn the_table_is_in_the_order_of_the_versions() {
        assert!(
            Version::all()
                .enumerate()
                .all(|(row, one)| row == one as usize)
        );
        assert_eq!(Version::all().max(), Some(Version::NEWEST));
    }

    #[test]
    fn a_version_is_found_by_both_its_names() {
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
    fn the_newest_of_several_offers_is_taken() {
        let offers = Version::all().map(Version::subprotocol);
        assert_eq!(Version::offered(offers), Some(Version::NEWEST));
        assert_eq!(Version::offered(std::iter::empty()), None);
    }

    #[test]
    fn differences_are_not_for_clients_that_cannot_read_them() {
        assert_eq!(Version::V2_1.diffs(Diffs::ANY), Diffs::NONE);
        assert_eq!(Version::V2_4.diffs(Diffs::ANY), Diffs::ANY);
        assert_eq!(Version::V2_5.diffs(Diffs::NONE), Diffs::NONE);
    }
}
