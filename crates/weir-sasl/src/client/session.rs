//! When a connection logs in again (KIP-368).

use std::time::{Duration, Instant};

/// Login of an open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginSession {
    /// Version of SaslAuthenticate that the broker has; a repeated login does not ask for it.
    pub(super) authenticate_version: i16,
    lifetime: Option<Duration>,
    renew_at: Option<Instant>,
}

impl LoginSession {
    /// Creates the session of a login that was complete at `now` and is valid for `lifetime_ms`;
    /// 0 is unlimited. `draw` spreads the repeated logins of many connections.
    pub(super) fn new(authenticate_version: i16, lifetime_ms: i64, now: Instant, draw: u8) -> Self {
        let renew_after = renew_after(lifetime_ms, draw);
        let lifetime_ms = u64::try_from(lifetime_ms).ok().filter(|ms| *ms > 0);
        Self {
            authenticate_version,
            lifetime: lifetime_ms.map(Duration::from_millis),
            renew_at: renew_after.and_then(|after| now.checked_add(after)),
        }
    }

    /// Returns the time for which the login is valid; `None` if it has no end.
    pub fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }

    /// Returns `true` if the next request must be a login.
    pub fn is_due(&self, now: Instant) -> bool {
        self.renew_at.is_some_and(|renew_at| now >= renew_at)
    }
}

/// Returns 85 to 95 % of a session's lifetime. Brokers reject a login less than a second after the
/// last one.
fn renew_after(lifetime_ms: i64, draw: u8) -> Option<Duration> {
    let lifetime_ms = u64::try_from(lifetime_ms).ok().filter(|it| *it > 0)?;
    let per_mille = 850 + u64::from(draw) * 100 / 255;
    // Divides first: a lifetime may have any value.
    let after_ms =
        (lifetime_ms / 1000).saturating_mul(per_mille) + (lifetime_ms % 1000) * per_mille / 1000;
    Some(Duration::from_millis(after_ms.max(LOGIN_INTERVAL_MIN_MS)))
}

const LOGIN_INTERVAL_MIN_MS: u64 = 1010;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_is_renewed_before_its_end() {
        let ms = |lifetime, draw| renew_after(lifetime, draw).map(|it| it.as_millis());
        assert_eq!(ms(100_000, 0), Some(85_000));
        assert_eq!(ms(100_000, 255), Some(95_000));
        assert_eq!(ms(3_601, 128), Some(3 * 900 + 601 * 900 / 1000));
        assert_eq!(ms(1000, 0), Some(1010));
        assert_eq!(ms(0, 7), None);
        assert_eq!(ms(-5, 7), None);
        assert!(ms(i64::MAX, 255).is_some());
    }

    #[test]
    fn unlimited_session_is_never_due() {
        let now = Instant::now();
        assert!(!LoginSession::new(1, 0, now, 0).is_due(now + Duration::from_secs(1 << 30)));
        assert!(!LoginSession::new(1, i64::MAX, now, 0).is_due(now));
        let session = LoginSession::new(1, 10_000, now, 0);
        assert!(!session.is_due(now + Duration::from_millis(8_499)));
        assert!(session.is_due(now + Duration::from_millis(8_500)));
    }
}
