//! Locks that threads share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex under which no code can panic.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
