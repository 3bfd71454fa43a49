//! Counters per API of a virtual cluster. Each event loop writes its own, without locks; a scrape
//! sums them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::Instant;

use weir_net::lock;
use weir_net::otlp::TraceSource;

use crate::connection_counters::ConnectionCounters;
use crate::principal_counters::PrincipalCounters;
use crate::request_traces::{RequestTrace, RequestTraces};
use crate::versions::KEY_END;

/// Buckets of response times: up to 128 microseconds, then twice the one before up to 34 seconds,
/// and all above.
pub(crate) const TIME_BUCKETS: usize = 20;
const FIRST_TIME_POWER: u32 = 7;
/// Buckets of frame sizes: up to 64 bytes, then four times the one before up to 64 MiB, and all
/// above.
pub(crate) const SIZE_BUCKETS: usize = 12;
const FIRST_SIZE_POWER: u32 = 6;

/// Counters of one virtual cluster, for all event loops.
#[derive(Debug, Default)]
pub(crate) struct ClusterApis {
    loops: Mutex<Vec<(ThreadId, Arc<LoopApis>)>>,
    /// Source of traces; empty without traces.
    traces: OnceLock<(TraceSource, String)>,
    pub(crate) principals: PrincipalCounters,
    pub(crate) connections: ConnectionCounters,
}

impl ClusterApis {
    /// Traces requests that arrive from now on; `cluster` is the name of the virtual cluster.
    pub(crate) fn trace_with(&self, source: TraceSource, cluster: &str) {
        self.traces.get_or_init(|| (source, cluster.to_owned()));
    }

    /// Returns the counters that the calling thread alone writes.
    pub(crate) fn of_this_thread(&self) -> Arc<LoopApis> {
        let (id, mut all) = (std::thread::current().id(), lock(&self.loops));
        if let Some((_, own)) = all.iter().find(|(owner, _)| *owner == id) {
            return Arc::clone(own);
        }
        let traces = self.traces.get();
        let traces = traces.map(|(source, name)| RequestTraces::new(source, name));
        let own = Arc::new(LoopApis::new(traces));
        all.push((id, Arc::clone(&own)));
        own
    }

    /// Returns the sums of each API that was used, with its key.
    pub(crate) fn sums(&self) -> Vec<(i16, ApiCounts)> {
        let all = lock(&self.loops);
        let sum = |key: i16| {
            let rows = all
                .iter()
                .filter_map(|(_, one)| one.rows[key as usize].get());
            let mut counts = None;
            for row in rows {
                row.add_to(counts.get_or_insert_with(ApiCounts::default));
            }
            Some((key, counts?))
        };
        (0..KEY_END).filter_map(sum).collect()
    }
}

/// Counters of one virtual cluster in one event loop.
#[derive(Debug)]
pub(crate) struct LoopApis {
    epoch: Instant,
    /// `None`: no request is traced.
    traces: Option<RequestTraces>,
    /// Rows of the APIs that were used, by API key.
    rows: [OnceLock<Box<ApiRow>>; KEY_END as usize],
}

impl LoopApis {
    fn new(traces: Option<RequestTraces>) -> Self {
        Self {
            epoch: Instant::now(),
            traces,
            rows: [const { OnceLock::new() }; KEY_END as usize],
        }
    }

    /// Returns the microseconds since these counters began.
    pub(crate) fn now_us(&self) -> u64 {
        self.epoch.elapsed().as_micros() as u64
    }

    /// Counts a request of `bytes` bytes. Keys that no client may use are ignored.
    #[inline]
    pub(crate) fn count_request(&self, key: i16, bytes: usize) {
        if let Some(row) = self.row(key) {
            add(&row.requests, 1);
            row.request_frames.note(bytes as u64, FIRST_SIZE_POWER, 2);
        }
    }

    /// Counts a response of the proxy itself, or a part of one, with an error code of Kafka.
    pub(crate) fn count_error(&self, key: i16, code: i16) {
        let Some(row) = self.row(key) else { return };
        let errors = row.errors.get_or_init(Box::default);
        // The first place is that of codes that no place is for.
        let place = usize::try_from(code).unwrap_or(0);
        add(errors.0.get(place).unwrap_or(&errors.0[0]), 1);
    }

    /// Counts a frame that has waited for `time_us`.
    pub(crate) fn count_held(&self, key: i16, time_us: u64) {
        if let Some(row) = self.row(key) {
            let held_us = row.held_us.get_or_init(Box::default);
            held_us.note(time_us, FIRST_TIME_POWER, 1);
        }
    }

    /// Returns the trace of a request if it is sampled; `frame` has arrived of it.
    #[inline]
    pub(crate) fn begin_trace(
        &self,
        key: i16,
        bytes: usize,
        frame: &[u8],
    ) -> Option<Box<RequestTrace>> {
        self.traces.as_ref()?.begin(key, bytes, frame)
    }

    /// Counts a response of `bytes` bytes that began after `time_us`.
    #[inline]
    pub(crate) fn count_response(&self, key: i16, bytes: usize, time_us: u64) {
        if let Some(row) = self.row(key) {
            row.response_frames.note(bytes as u64, FIRST_SIZE_POWER, 2);
            row.response_us.note(time_us, FIRST_TIME_POWER, 1);
        }
    }

    #[inline]
    fn row(&self, key: i16) -> Option<&ApiRow> {
        let place = self.rows.get(usize::try_from(key).ok()?)?;
        Some(place.get_or_init(Box::default))
    }
}

#[derive(Debug, Default)]
struct ApiRow {
    requests: AtomicU64,
    request_frames: Buckets<SIZE_BUCKETS>,
    response_frames: Buckets<SIZE_BUCKETS>,
    response_us: Buckets<TIME_BUCKETS>,
    held_us: OnceLock<Box<Buckets<TIME_BUCKETS>>>,
    errors: OnceLock<Box<ErrorCounts>>,
}

/// Counts by error code. The highest of Kafka 4.4 is 134.
#[derive(Debug)]
struct ErrorCounts([AtomicU64; 160]);

impl Default for ErrorCounts {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; 160])
    }
}

impl ApiRow {
    fn add_to(&self, counts: &mut ApiCounts) {
        counts.requests += self.requests.load(Ordering::Relaxed);
        self.request_frames.add_to(&mut counts.request_frames);
        self.response_frames.add_to(&mut counts.response_frames);
        self.response_us.add_to(&mut counts.response_us);
        if let Some(held_us) = self.held_us.get() {
            held_us.add_to(&mut counts.held_us);
        }
        let errors = self.errors.get().into_iter().flat_map(|errors| &errors.0);
        for (code, count) in (0..).zip(errors) {
            match count.load(Ordering::Relaxed) {
                0 => {}
                count => *counts.errors.entry(code).or_default() += count,
            }
        }
    }
}

/// Counts by size, written by one thread.
#[derive(Debug)]
struct Buckets<const N: usize> {
    counts: [AtomicU64; N],
    sum: AtomicU64,
}

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; N],
            sum: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> Buckets<N> {
    /// Counts a value. The first bucket ends at 2 to the power of `first`, each other one `step`
    /// powers above the one before.
    #[inline]
    fn note(&self, value: u64, first: u32, step: u32) {
        // The least power of two that is not below the value.
        let power = u64::BITS - value.saturating_sub(1).leading_zeros();
        let index = power.saturating_sub(first).div_ceil(step) as usize;
        add(&self.counts[index.min(N - 1)], 1);
        add(&self.sum, value);
    }

    fn add_to(&self, counts: &mut Histogram<N>) {
        for (sum, count) in counts.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Ordering::Relaxed);
        }
        counts.sum += self.sum.load(Ordering::Relaxed);
    }
}

/// Adds to a counter that only the calling thread writes.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

/// Sums of one API over all event loops.
#[derive(Debug, Default)]
pub(crate) struct ApiCounts {
    pub(crate) requests: u64,
    /// Sizes in bytes.
    pub(crate) request_frames: Histogram<SIZE_BUCKETS>,
    pub(crate) response_frames: Histogram<SIZE_BUCKETS>,
    /// Microseconds from a request to the beginning of its response.
    pub(crate) response_us: Histogram<TIME_BUCKETS>,
    /// Microseconds that frames waited for filters.
    pub(crate) held_us: Histogram<TIME_BUCKETS>,
    /// Responses with errors of the proxy itself, by error code.
    pub(crate) errors: BTreeMap<i16, u64>,
}

/// Counts by size.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    pub(crate) counts: [u64; N],
    pub(crate) sum: u64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self {
            counts: [0; N],
            sum: 0,
        }
    }
}

impl Histogram<TIME_BUCKETS> {
    /// Returns the bounds in seconds with their counts, without overlap.
    pub(crate) fn seconds(&self) -> Vec<(f64, u64)> {
        self.bounded(|index| (1_u64 << (FIRST_TIME_POWER as usize + index)) as f64 / 1e6)
    }
}

impl Histogram<SIZE_BUCKETS> {
    /// Returns the bounds in bytes with their counts, without overlap.
    pub(crate) fn bytes(&self) -> Vec<(f64, u64)> {
        self.bounded(|index| (1_u64 << (FIRST_SIZE_POWER as usize + 2 * index)) as f64)
    }
}

impl<const N: usize> Histogram<N> {
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn bounded(&self, bound: impl Fn(usize) -> f64) -> Vec<(f64, u64)> {
        let counts = self.counts.iter().enumerate();
        let mut buckets: Vec<_> = counts
            .map(|(index, count)| (bound(index), *count))
            .collect();
        if let Some((last, _)) = buckets.last_mut() {
            // Written as infinity.
            *last = f64::MAX;
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_bucket_of_their_bound() {
        let apis = ClusterApis::default();
        let own = apis.of_this_thread();
        for (bytes, time_us) in [
            (0, 0),
            (64, 128),
            (65, 129),
            (256, 256),
            (257, 257),
            (64 << 20, 1 << 25),
            ((64 << 20) + 1, (1 << 25) + 1),
        ] {
            own.count_request(3, bytes);
            own.count_response(3, bytes, time_us);
        }
        let sums = apis.sums();
        let [(3, counts)] = &sums[..] else {
            panic!("{sums:?}")
        };
        assert_eq!(counts.requests, 7);
        assert_eq!(
            counts.request_frames.counts,
            [2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]
        );
        assert_eq!(counts.response_us.counts[..3], [2, 2, 1]);
        assert_eq!(counts.response_us.counts[18..], [1, 1]);
        assert_eq!(counts.response_frames.sum, 642 + (128 << 20) + 1);
        let (sizes, times) = (counts.request_frames.bytes(), counts.response_us.seconds());
        assert_eq!((sizes[1].0, sizes[10].0), (256.0, (64 << 20) as f64));
        assert_eq!((times[0].0, times[18].0), (0.000_128, 33.554_432));
        assert_eq!((sizes[11].0, times[19].0), (f64::MAX, f64::MAX));
    }

    #[test]
    fn errors_are_counted_by_code() {
        let apis = ClusterApis::default();
        let own = apis.of_this_thread();
        for code in [29, 53, 29, i16::MAX, -1] {
            own.count_error(0, code);
        }
        let sums = apis.sums();
        assert_eq!(sums[0].1.errors, BTreeMap::from([(0, 2), (29, 2), (53, 1)]));
    }

    #[test]
    fn threads_count_apart_and_are_summed() {
        let apis = Arc::<ClusterApis>::default();
        apis.of_this_thread().count_request(0, 1);
        assert!(Arc::ptr_eq(&apis.of_this_thread(), &apis.of_this_thread()));
        let other = Arc::clone(&apis);
        let thread = std::thread::spawn(move || other.of_this_thread().count_request(0, 1));
        thread.join().expect("a thread");
        assert_eq!(apis.sums()[0].1.requests, 2);
        apis.of_this_thread().count_request(-1, 1);
        apis.of_this_thread().count_request(KEY_END, 1);
        assert_eq!(apis.sums().len(), 1, "keys of no API");
    }
}
