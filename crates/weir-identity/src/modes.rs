//! Subscription modes, as rules and remote adapters name them.

use thiserror::Error;

/// Subscription mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names are those of TLCP
pub enum ItemMode {
    Raw,
    Merge,
    Distinct,
    Command,
}

/// Text that is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown mode \"{0}\"; write RAW, MERGE, DISTINCT or COMMAND")]
pub struct UnknownMode(pub String);

impl ItemMode {
    /// All modes, in the order of the remote adapter protocol.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Merge, Self::Distinct, Self::Command];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "RAW",
            Self::Merge => "MERGE",
            Self::Distinct => "DISTINCT",
            Self::Command => "COMMAND",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Result<Self, UnknownMode> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|mode| mode.as_str() == name);
        found.ok_or_else(|| UnknownMode(name.to_owned()))
    }

    /// Returns the letter of the remote adapter protocol.
    pub fn letter(self) -> char {
        match self {
            Self::Raw => 'R',
            Self::Merge => 'M',
            Self::Distinct => 'D',
            Self::Command => 'C',
        }
    }

    /// Returns the mode of a letter.
    pub fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.letter() == letter)
    }
}

/// A set of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemModes(u8);

impl ItemModes {
    /// All modes.
    pub const ALL: Self = Self(0b1111);

    /// Returns `true` if the mode is in the set.
    pub fn contains(self, mode: ItemMode) -> bool {
        self.0 & (1 << mode as u8) != 0
    }

    /// Returns the modes of both sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the modes.
    pub fn iter(self) -> impl Iterator<Item = ItemMode> {
        ItemMode::ALL
            .into_iter()
            .filter(move |mode| self.contains(*mode))
    }
}

impl FromIterator<ItemMode> for ItemModes {
    fn from_iter<I: IntoIterator<Item = ItemMode>>(modes: I) -> Self {
        Self(
            modes
                .into_iter()
                .fold(0, |bits, mode| bits | 1 << mode as u8),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_letters_are_read_back() {
        for mode in ItemMode::ALL {
            assert_eq!(ItemMode::parse(mode.as_str()), Ok(mode));
            assert_eq!(ItemMode::from_letter(mode.letter()), Some(mode));
        }
        assert_eq!(ItemMode::parse("merge").unwrap_err().0, "merge");
        assert_eq!(ItemMode::from_letter('X'), None);
    }

    #[test]
    fn sets_intersect() {
        let raw_merge: ItemModes = [ItemMode::Raw, ItemMode::Merge].into_iter().collect();
        let merge: ItemModes = [ItemMode::Merge].into_iter().collect();
        assert_eq!(raw_merge.and(merge), merge);
        assert_eq!(ItemModes::ALL.iter().count(), 4);
        assert!(ItemModes::default().is_empty());
    }
}
