//! Names of the values of an enum in plans, on the command line and in results.

use thiserror::Error;

/// Name that is none of the known ones.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown {what} \"{name}\", expected {}", alternatives(.known))]
pub struct UnknownName {
    /// Kind of the named value.
    pub what: &'static str,
    /// Name as written.
    pub name: String,
    /// Known names.
    pub known: Vec<&'static str>,
}

/// Returns for example `a, b or c`.
fn alternatives(names: &[&str]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Implements `ALL`, `name` and `FromStr` for an enum without fields.
macro_rules! names {
    ($vis:vis $type:ident, $what:literal: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// All values, in display order.
            $vis const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name in plans, on the command line and in results.
            #[must_use]
            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::experiment::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let mut all = Self::ALL.iter().copied();
                all.find(|it| it.name() == text).ok_or_else(|| Self::Err {
                    what: $what,
                    name: text.to_owned(),
                    known: Self::ALL.iter().map(|it| it.name()).collect(),
                })
            }
        }
    };
}

pub(crate) use names;
