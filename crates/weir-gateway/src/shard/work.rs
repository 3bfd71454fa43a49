//! Counts entries that are visited, so that tests can tell whether an operation's cost depends on
//! how much waits. Compiles to nothing outside tests.

#[cfg(test)]
thread_local! {
    static VISITS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts one visited entry.
#[inline]
pub(super) fn visit() {
    #[cfg(test)]
    VISITS.with(|visits| visits.set(visits.get() + 1));
}

/// Returns the entries visited by this thread so far.
#[cfg(test)]
pub(super) fn visits() -> u64 {
    VISITS.with(std::cell::Cell::get)
}
