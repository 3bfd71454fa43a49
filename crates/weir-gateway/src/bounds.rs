//! Numbers of `gateway.toml` with bounds, checked while they are read.

use serde::de::{Deserialize, Deserializer, Error};

/// Deserializes a number from `MIN` to `MAX`.
pub(crate) fn bounded<'de, const MIN: u64, const MAX: u64, T, D>(source: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Copy + TryInto<u64>,
    D: Deserializer<'de>,
{
    let number = T::deserialize(source)?;
    let value: Option<u64> = number.try_into().ok();
    match value.is_some_and(|value| (MIN..=MAX).contains(&value)) {
        true => Ok(number),
        false if MAX == u64::MAX => Err(D::Error::custom(format_args!("use at least {MIN}"))),
        false => Err(D::Error::custom(format_args!("use {MIN} to {MAX}"))),
    }
}

/// Deserializes a rate per second; 0 is no limit.
pub(crate) fn rate<'de, D: Deserializer<'de>>(source: D) -> Result<f32, D::Error> {
    let rate = f32::deserialize(source)?;
    match (0.0..=1e9).contains(&rate) {
        true => Ok(rate),
        false => Err(D::Error::custom(
            "rates per second must not be negative; 0 is no limit",
        )),
    }
}
