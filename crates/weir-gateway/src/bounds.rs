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
    let remedy = "rates per second must not be negative; 0 is no limit";
    match (0.0..=1e9).contains(&rate) {
        true => Ok(rate),
        false => Err(D::Error::custom(remedy)),
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::GatewayLimits;

    #[test]
    fn numbers_out_of_range_are_rejected_with_remedy() {
        for (text, remedy) in [
            ("sessions = 0", "use at least 1"),
            ("sessions = -1", "expected usize"),
            ("recovery_ms = 600001", "use 0 to 600000"),
            ("stall_timeout_ms = 999", "use 1000 to 3600000"),
            ("sessions_per_second = -0.5", "must not be negative"),
            ("requests_per_second = nan", "must not be negative"),
        ] {
            let error = toml::from_str::<GatewayLimits>(text).expect_err(text);
            assert!(error.message().contains(remedy), "{text}: {error}");
        }
        let limits: GatewayLimits = toml::from_str("recovery_ms = 600000").expect("valid");
        assert_eq!((limits.recovery_ms, limits.sessions), (600_000, 100_000));
    }
}
