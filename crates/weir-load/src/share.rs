//! Divides the work of a role among processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Share of a role's work for one process: the clients, consumers, producers or records, numbered
/// from 0, whose number modulo `of` is `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerShare {
    /// Index of the share, from 0, below `of`.
    pub index: usize,
    /// Number of shares, at least 1.
    pub of: usize,
}

impl Default for WorkerShare {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl WorkerShare {
    /// Share of a single process: everything.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Returns the numbers of this share out of `total`, ascending.
    pub fn numbers(self, total: usize) -> impl ExactSizeIterator<Item = usize> {
        (self.index.min(total)..total).step_by(self.of.max(1))
    }

    /// Returns how many of `total` this share has.
    pub fn count(self, total: u64) -> u64 {
        total
            .saturating_sub(self.index as u64)
            .div_ceil(self.of.max(1) as u64)
    }
}

/// Writes the number of the share, from 1, and the number of shares, as in `2/3`.
impl fmt::Display for WorkerShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

impl FromStr for WorkerShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            let (number, of): (usize, usize) = (number.parse().ok()?, of.parse().ok()?);
            let index = number.checked_sub(1)?;
            (index < of).then_some(Self { index, of })
        });
        parsed.ok_or_else(|| "expected the number of a share and their count, as in 2/3".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_cover_all_numbers_once(total in 0_usize..5000, of in 1_usize..12) {
            let shares = (0..of).map(|index| WorkerShare { index, of });
            let numbers = shares.clone().flat_map(|share| share.numbers(total));
            let mut numbers: Vec<usize> = numbers.collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..total).collect::<Vec<_>>());
            for share in shares.clone() {
                prop_assert_eq!(share.count(total as u64), share.numbers(total).len() as u64);
            }
            let counts: Vec<usize> = shares.map(|share| share.numbers(total).len()).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), total);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }

    #[test]
    fn shares_are_written_from_one() {
        let share = WorkerShare { index: 1, of: 3 };
        assert_eq!(share.to_string(), "2/3");
        assert_eq!("2/3".parse(), Ok(share));
        for wrong in ["", "2", "0/3", "4/3", "1/0", "-1/3", "a/b"] {
            assert!(wrong.parse::<WorkerShare>().is_err(), "{wrong}");
        }
    }
}
