//! Counter of visited entries. Tests use it to check that the cost of an operation does not depend
//! on the queue length. It compiles to nothing outside tests.

#[cfg(test)]
thread_local! {
    static VISITS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts one visited entry.
#[inline]
pub(crate) fn visit() {
    #[cfg(test)]
    VISITS.with(|visits| visits.set(visits.get() + 1));
}

/// Returns the number of entries visited by this thread.
#[cfg(test)]
pub(crate) fn visits() -> u64 {
    VISITS.with(std::cell::Cell::get)
}
