//! Chooses the keys of records: uniform, Zipf, sequential, or a hot set.

use std::fmt;
use std::str::FromStr;

use super::random::Random;

/// Distribution of records over keys.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum KeyDistribution {
    /// All keys are equally likely.
    #[default]
    Uniform,
    /// Key number *k*, from 1, has a weight of `1 / k^exponent`.
    Zipf(f64),
    /// One key after the other, repeatedly.
    Sequential,
    /// Hot keys get another share of the records than the other keys. Within both groups all keys
    /// are equally likely. Shares are from 0 to 1.
    Hot {
        /// Share of the keys that are hot, at least one key.
        keys: f64,
        /// Share of the records for the hot keys.
        records: f64,
    },
}

/// Error for an unknown distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown distribution \"{0}\": use uniform, sequential, zipf, zipf:EXPONENT or \
         hot:KEYS:RECORDS, two shares of 1 such as hot:0.1:0.9"
)]
pub struct UnknownDistribution(String);

impl FromStr for KeyDistribution {
    type Err = UnknownDistribution;

    fn from_str(text: &str) -> Result<Self, UnknownDistribution> {
        let unknown = || UnknownDistribution(text.to_owned());
        let number = |part: &str, max: f64| {
            let value = part.parse::<f64>().ok();
            value
                .filter(|value| (0.0..=max).contains(value))
                .ok_or_else(unknown)
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["uniform"] => Ok(Self::Uniform),
            ["sequential"] => Ok(Self::Sequential),
            ["zipf"] => Ok(Self::Zipf(1.0)),
            ["zipf", exponent] => Ok(Self::Zipf(number(exponent, EXPONENT_MAX)?)),
            ["hot", keys, records] => Ok(Self::Hot {
                keys: number(keys, 1.0)?,
                records: number(records, 1.0)?,
            }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for KeyDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Sequential => f.write_str("sequential"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::Hot { keys, records } => write!(f, "hot:{keys}:{records}"),
        }
    }
}

/// Generator of key numbers.
#[derive(Debug, Clone)]
pub struct KeyChoice {
    random: Random,
    keys: u32,
    sampler: KeySampler,
}

#[derive(Debug, Clone)]
enum KeySampler {
    Uniform,
    Sequential(u32),
    /// Cumulative weights of all keys; the last one is 1.
    Weighted(Vec<f64>),
}

impl KeyChoice {
    /// Creates a generator over `keys` keys; the same seed gives the same sequence.
    pub fn new(distribution: KeyDistribution, keys: usize, seed: u64) -> Self {
        let weighted = |weight: &dyn Fn(usize) -> f64| {
            let all: f64 = (0..keys).map(weight).sum();
            let mut sum = 0.0;
            let cumulative = (0..keys).map(|key| {
                sum += weight(key) / all;
                sum
            });
            KeySampler::Weighted(cumulative.collect())
        };
        let sampler = match distribution {
            KeyDistribution::Uniform => KeySampler::Uniform,
            KeyDistribution::Sequential => KeySampler::Sequential(0),
            KeyDistribution::Zipf(exponent) => {
                weighted(&|key| ((key + 1) as f64).powf(exponent).recip())
            }
            KeyDistribution::Hot {
                keys: share,
                records,
            } => {
                let hot = ((keys as f64 * share).round() as usize).clamp(1, keys.max(1));
                let cold = keys - hot.min(keys);
                // Without cold keys the hot ones get all records.
                let records = if cold == 0 { 1.0 } else { records };
                weighted(&|key| match key < hot {
                    true => records / hot as f64,
                    false => (1.0 - records) / cold as f64,
                })
            }
        };
        Self {
            random: Random::new(seed),
            keys: u32::try_from(keys).unwrap_or(u32::MAX),
            sampler,
        }
    }

    /// Returns the number of the next record's key.
    pub fn draw(&mut self) -> usize {
        match &mut self.sampler {
            KeySampler::Uniform => self.random.below(self.keys) as usize,
            KeySampler::Sequential(next) => {
                let key = *next;
                *next = (key + 1) % self.keys.max(1);
                key as usize
            }
            KeySampler::Weighted(cumulative) => {
                // 53 bits: the precision of a double.
                let drawn = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                let key = cumulative.partition_point(|sum| *sum <= drawn);
                // Rounded shares may add up to a little less than 1.
                key.min(cumulative.len().saturating_sub(1))
            }
        }
    }
}

const EXPONENT_MAX: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(distribution: &str, keys: usize) -> Vec<usize> {
        let distribution = distribution.parse().expect("a distribution");
        let mut choice = KeyChoice::new(distribution, keys, 3);
        let mut counts = vec![0; keys];
        for _ in 0..RECORDS {
            counts[choice.draw()] += 1;
        }
        counts
    }

    const RECORDS: usize = 40_000;

    #[test]
    fn uniform_keeps_its_sequence_for_a_seed() {
        let mut plain = Random::new(9);
        let mut choice = KeyChoice::new(KeyDistribution::Uniform, 40, 9);
        for _ in 0..100 {
            assert_eq!(choice.draw(), plain.below(40) as usize);
        }
    }

    #[test]
    fn distributions_give_their_shares() {
        assert!(counts("sequential", 40).iter().all(|count| *count == 1000));
        let zipf = counts("zipf", 10);
        // The sum of 1/k for ten keys is 2.929: 34.1 % and 3.4 %.
        assert!((13_200..14_200).contains(&zipf[0]), "{zipf:?}");
        assert!((1_150..1_600).contains(&zipf[9]), "{zipf:?}");
        let hot = counts("hot:0.1:0.9", 20);
        let first_two = hot[0] + hot[1];
        assert!((35_500..36_500).contains(&first_two), "{hot:?}");
        assert!(
            hot[2..].iter().all(|count| (140..310).contains(count)),
            "{hot:?}"
        );
        assert_eq!(counts("hot:1:0.5", 4).iter().sum::<usize>(), RECORDS);
        let flat = counts("zipf:0", 40);
        assert!(
            flat.iter().all(|count| (800..1200).contains(count)),
            "{flat:?}"
        );
    }

    #[test]
    fn single_key_is_always_drawn() {
        for distribution in ["uniform", "sequential", "zipf:2", "hot:0.5:0.5"] {
            assert_eq!(counts(distribution, 1), [RECORDS], "{distribution}");
        }
    }

    #[test]
    fn distribution_names_round_trip_or_fail() {
        for text in ["uniform", "sequential", "zipf:1.5", "hot:0.1:0.9"] {
            let read: KeyDistribution = text.parse().expect(text);
            assert_eq!(read.to_string(), text);
        }
        for text in [
            "",
            "zipf:x",
            "zipf:-1",
            "zipf:NaN",
            "hot:0.1",
            "hot:2:0.5",
            "gauss",
        ] {
            let error = text.parse::<KeyDistribution>().expect_err(text);
            assert!(error.to_string().contains("use uniform"), "{error}");
        }
    }
}
