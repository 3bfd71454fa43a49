//! Delegation tokens of one principal, with which the proxy logs in as that principal.

use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use weir_net::lock;
use weir_sasl::client::LoginMethod;

/// Time after which all brokers usually know a new token.
const PROPAGATION: Duration = Duration::from_secs(1);
/// Time after which a broker that refuses a token has a reason.
const NEW: Duration = Duration::from_secs(5);

/// Tokens of one principal.
pub(crate) struct DelegationTokens {
    /// Name of the principal, of type `User`.
    pub(super) owner: Box<str>,
    held: Mutex<HeldTokens>,
}

#[derive(Default)]
struct HeldTokens {
    current: Option<DelegationToken>,
    /// Replaces the current one once all brokers know it, or the current one has expired.
    next: Option<DelegationToken>,
}

/// A login with a token.
pub(super) struct DelegationToken {
    pub(super) method: LoginMethod,
    pub(super) created: Instant,
    pub(super) lifetime: Duration,
}

impl fmt::Debug for DelegationTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tokens are secrets.
        write!(f, "DelegationTokens({})", self.owner)
    }
}

impl DelegationToken {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.created)
    }

    fn has_expired(&self, now: Instant) -> bool {
        self.age(now) >= self.lifetime
    }

    /// Returns `true` after 80 % of the lifetime.
    fn needs_successor(&self, now: Instant) -> bool {
        self.age(now) >= self.lifetime / 5 * 4
    }
}

impl DelegationTokens {
    pub(super) fn new(owner: &str) -> Self {
        Self {
            owner: owner.into(),
            held: Mutex::default(),
        }
    }

    /// Returns a login with a token that has not expired, created by `create` if there is none or
    /// the current one expires soon.
    pub(super) fn login<E>(
        &self,
        now: Instant,
        create: impl FnOnce() -> Result<DelegationToken, E>,
    ) -> Result<LoginMethod, E> {
        let mut held = lock(&self.held);
        let HeldTokens { current, next } = &mut *held;
        if current.as_ref().is_none_or(|it| it.needs_successor(now)) && next.is_none() {
            match create() {
                Ok(token) => *next = Some(token),
                // The current one is good for some time.
                Err(_) if current.as_ref().is_some_and(|it| !it.has_expired(now)) => {}
                Err(error) => return Err(error),
            }
        }
        let is_current_over = current.as_ref().is_none_or(|it| it.has_expired(now));
        if next
            .as_ref()
            .is_some_and(|it| is_current_over || it.age(now) >= PROPAGATION)
        {
            *current = next.take();
        }
        // Invariant: there is a current one, or the next one has just become it.
        let token = current.as_ref().expect("a token");
        Ok(token.method.clone())
    }

    /// Returns `true` if a broker may not know the current token yet.
    pub(crate) fn is_new(&self, now: Instant) -> bool {
        let held = lock(&self.held);
        held.current.as_ref().is_some_and(|it| it.age(now) < NEW)
    }
}

#[cfg(test)]
mod tests {
    use weir_security::ScramHash;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn token(name: &str, created: Instant) -> DelegationToken {
        DelegationToken {
            method: LoginMethod::delegation_token(ScramHash::Sha512, name, b"secret"),
            created,
            lifetime: 100 * SECOND,
        }
    }

    #[test]
    fn successor_is_used_once_brokers_know_it() {
        let (start, tokens) = (Instant::now(), DelegationTokens::new("anna"));
        let login = |after: u32, created: Result<&str, ()>| {
            let now = start + after * SECOND;
            let method = tokens.login(now, || created.map(|name| token(name, now)))?;
            let text = format!("{method:?}");
            Ok::<_, ()>((text.contains("\"one\""), tokens.is_new(now)))
        };
        assert_eq!(login(0, Err(())), Err(()));
        assert_eq!(login(0, Ok("one")), Ok((true, true)));
        assert_eq!(login(6, Err(())), Ok((true, false)));
        assert_eq!(login(79, Err(())), Ok((true, false)));
        assert_eq!(login(81, Err(())), Ok((true, false)), "good for 19 s");
        assert_eq!(login(82, Ok("two")), Ok((true, false)), "too new");
        assert_eq!(login(83, Err(())), Ok((false, true)));
        assert_eq!(login(87, Err(())), Ok((false, false)));
        assert_eq!(
            login(400, Ok("three")),
            Ok((false, true)),
            "both have expired"
        );
        assert_eq!(format!("{tokens:?}"), "DelegationTokens(anna)");
    }
}
