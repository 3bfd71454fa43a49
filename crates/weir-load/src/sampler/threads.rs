//! CPU time by thread. One saturated thread limits a process long before the machine is full.

use std::collections::BTreeMap;

/// Running totals of the threads of one role; 16 bytes per thread and sample.
#[derive(Debug, Default)]
pub(super) struct ThreadTimes {
    by_id: BTreeMap<i32, Times>,
}

/// Samples of one thread.
#[derive(Debug)]
struct Times {
    name: String,
    /// Time and CPU time in microseconds, ascending.
    totals: Vec<(u64, u64)>,
}

impl ThreadTimes {
    /// Adds the CPU time of a thread at a point in time. If the total decreased, the id belongs to
    /// a new thread.
    pub(super) fn add(&mut self, id: i32, name: String, unix_ns: u64, cpu_us: u64) {
        let times = self.by_id.entry(id).or_insert_with(|| Times {
            name: String::new(),
            totals: Vec::new(),
        });
        if times.totals.last().is_some_and(|(_, last)| *last > cpu_us) {
            times.totals.clear();
        }
        // A thread gets its name shortly after its start.
        times.name = name;
        times.totals.push((unix_ns, cpu_us));
    }

    /// Returns all threads, each with its share of a core between two points in time.
    pub(super) fn shares(
        &self,
        from_unix_ns: u64,
        until_unix_ns: u64,
    ) -> impl Iterator<Item = (&str, f64)> {
        self.by_id.values().filter_map(move |times| {
            let inside = |(at, _): &&(u64, u64)| (from_unix_ns..=until_unix_ns).contains(at);
            let mut totals = times.totals.iter().filter(inside);
            let first = totals.next()?;
            let last = totals.next_back()?;
            let span_ns = last.0.saturating_sub(first.0);
            let share = (last.1 - first.1) as f64 * 1e3 / span_ns as f64;
            (span_ns > 0).then_some((times.name.as_str(), share))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busiest(times: &ThreadTimes, from: u64, until: u64) -> Option<(&str, f64)> {
        times.shares(from, until).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    #[test]
    fn busiest_thread_of_a_span_is_found() {
        let mut times = ThreadTimes::default();
        for second in 0..5_u64 {
            let at = second * 1_000_000_000;
            times.add(1, "main".to_owned(), at, 5_000_000 + second * 100_000);
            let busy_from_2 = 900_000 * second.saturating_sub(2);
            times.add(2, "shard-0".to_owned(), at, busy_from_2);
        }
        assert_eq!(busiest(&times, 0, 2_000_000_000), Some(("main", 0.1)));
        let late = busiest(&times, 2_000_000_000, 9_000_000_000);
        assert_eq!(late, Some(("shard-0", 0.9)));
        assert_eq!(busiest(&times, 4_000_000_000, 9_000_000_000), None);
    }

    #[test]
    fn reused_id_is_another_thread() {
        let mut times = ThreadTimes::default();
        times.add(1, "old".to_owned(), 0, 5_000_000);
        times.add(1, "new".to_owned(), 1_000_000_000, 0);
        times.add(1, "new".to_owned(), 2_000_000_000, 500_000);
        assert_eq!(busiest(&times, 0, 2_000_000_000), Some(("new", 0.5)));
    }
}
