//! What records contain: kinds, keys and values as the published generator makes them.

mod random;
mod text;

use std::fmt;
use std::str::FromStr;

pub use random::Random;
pub use text::TextValues;

/// Kind of record, by the published generator's names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Text without a key.
    Base,
    /// Text under one of 40 keys.
    #[default]
    Keyed,
}

/// A kind that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind \"{0}\": use base or keyed")]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        match text {
            "base" => Ok(Self::Base),
            "keyed" => Ok(Self::Keyed),
            _ => Err(UnknownKind(text.to_owned())),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Keyed => "keyed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_published_names() {
        for kind in [Kind::Base, Kind::Keyed] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "keyd".parse::<Kind>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "unknown kind \"keyd\": use base or keyed"
        );
    }
}
