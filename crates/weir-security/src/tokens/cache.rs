//! Cache of the current token or credentials, shared by all connections.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::error::TokenError;

/// A value that expires. One caller at a time obtains a new one.
pub(super) struct Cache<T> {
    current: Mutex<Option<Cached<T>>>,
    failed: Mutex<Option<(Instant, TokenError)>>,
    /// Locked while a caller obtains a value.
    obtaining: Mutex<()>,
    is_refreshing: AtomicBool,
}

struct Cached<T> {
    value: T,
    obtained: SystemTime,
    expires: SystemTime,
}

/// Function that obtains a value and the end of its validity.
type Obtain<T> = dyn Fn() -> Result<(T, SystemTime), TokenError> + Send + Sync;

impl<T: Clone + Send + 'static> Cache<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            current: Mutex::new(None),
            failed: Mutex::new(None),
            obtaining: Mutex::new(()),
            is_refreshing: AtomicBool::new(false),
        })
    }

    /// Returns the value if it stays valid long enough for a request. Does not block.
    pub(super) fn current(&self) -> Option<T> {
        let current = lock(&self.current);
        let current = current.as_ref().filter(|it| it.is_valid(SystemTime::now()));
        current.map(|it| it.value.clone())
    }

    /// Returns the current value, or obtains one, which blocks. A value in the last quarter of its
    /// lifetime is replaced in the background.
    pub(super) fn get(self: &Arc<Self>, obtain: &Arc<Obtain<T>>) -> Result<T, TokenError> {
        let now = SystemTime::now();
        let valid = lock(&self.current)
            .as_ref()
            .filter(|it| it.is_valid(now))
            .map(|it| {
                let is_old = it.is_old(now);
                (it.value.clone(), is_old)
            });
        if let Some((value, is_old)) = valid {
            if is_old && !self.is_refreshing.swap(true, Ordering::AcqRel) {
                self.refresh(obtain);
            }
            return Ok(value);
        }
        let _guard = lock(&self.obtaining);
        // Another caller may have obtained it while this one waited.
        if let Some(value) = self.current() {
            return Ok(value);
        }
        if let Some((at, error)) = &*lock(&self.failed) {
            // Otherwise each of thousands of connections would repeat a failed request.
            if at.elapsed() < RETRY_INTERVAL {
                return Err(error.clone());
            }
        }
        self.obtain(obtain)
    }

    fn refresh(self: &Arc<Self>, obtain: &Arc<Obtain<T>>) {
        let (cache, obtain) = (Arc::clone(self), Arc::clone(obtain));
        let thread = std::thread::Builder::new().name("token-refresh".to_owned());
        let spawned = thread.spawn(move || {
            if let Err(error) = cache.obtain(&obtain) {
                tracing::warn!(%error, "token refresh failed, the current token is still valid");
            }
            cache.is_refreshing.store(false, Ordering::Release);
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "token refresh thread could not be started");
            self.is_refreshing.store(false, Ordering::Release);
        }
    }

    fn obtain(&self, obtain: &Arc<Obtain<T>>) -> Result<T, TokenError> {
        match obtain() {
            Ok((value, expires)) => {
                *lock(&self.failed) = None;
                *lock(&self.current) = Some(Cached {
                    value: value.clone(),
                    obtained: SystemTime::now(),
                    expires,
                });
                Ok(value)
            }
            Err(error) => {
                *lock(&self.failed) = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}

impl<T> Cached<T> {
    fn lifetime(&self) -> Duration {
        self.expires
            .duration_since(self.obtained)
            .unwrap_or(Duration::ZERO)
    }

    /// Returns `true` if the value outlives a request that uses it.
    fn is_valid(&self, now: SystemTime) -> bool {
        let margin = (self.lifetime() / 10).min(MARGIN_MAX);
        self.expires
            .duration_since(now)
            .is_ok_and(|left| left > margin)
    }

    /// Returns `true` in the last quarter of the lifetime.
    fn is_old(&self, now: SystemTime) -> bool {
        let age = now.duration_since(self.obtained).unwrap_or(Duration::ZERO);
        age > self.lifetime() * 3 / 4
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cache")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum time before its expiry from which a value is no longer used.
const MARGIN_MAX: Duration = Duration::from_secs(30);
/// Time for which the error of a failed request is returned instead of repeating the request.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn counted(lifetime: Duration) -> (Arc<AtomicUsize>, Arc<Obtain<usize>>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        let obtain = move || {
            let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
            Ok((number, SystemTime::now() + lifetime))
        };
        (calls, Arc::new(obtain))
    }

    #[test]
    fn valid_values_are_reused_and_expired_ones_replaced() {
        let (calls, obtain) = counted(Duration::from_secs(3600));
        let cache = Cache::new();
        assert_eq!(cache.current(), None);
        assert_eq!(cache.get(&obtain), Ok(1));
        assert_eq!(cache.get(&obtain), Ok(1));
        assert_eq!(cache.current(), Some(1));
        lock(&cache.current).as_mut().expect("cached").expires = SystemTime::now();
        assert_eq!(cache.current(), None);
        assert_eq!(cache.get(&obtain), Ok(2));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn old_values_are_replaced_in_the_background() {
        let (_, obtain) = counted(Duration::from_secs(100));
        let cache = Cache::new();
        assert_eq!(cache.get(&obtain), Ok(1));
        let obtained = SystemTime::now() - Duration::from_secs(800);
        lock(&cache.current).as_mut().expect("cached").obtained = obtained;
        assert_eq!(cache.get(&obtain), Ok(1));
        let deadline = Instant::now() + Duration::from_secs(10);
        while cache.current() != Some(2) {
            assert!(Instant::now() < deadline, "no refresh");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn failures_are_not_repeated_at_once() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        let obtain: Arc<Obtain<usize>> = Arc::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            Err(TokenError::NotNeeded)
        });
        let cache = Cache::new();
        assert_eq!(cache.get(&obtain), Err(TokenError::NotNeeded));
        assert_eq!(cache.get(&obtain), Err(TokenError::NotNeeded));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}
