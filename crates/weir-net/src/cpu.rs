//! CPU time of threads.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time that the calling thread has used so far.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The kernel counts up from 0, and nanoseconds are below 1,000,000,000.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_and_waiting_does_not() {
        let begin = thread_time();
        let mut sum = 0_u64;
        while thread_time() - begin < Duration::from_millis(5) {
            sum = std::hint::black_box(sum + 1);
        }
        let before = thread_time();
        std::thread::park_timeout(Duration::from_millis(50));
        assert!(thread_time() - before < Duration::from_millis(25));
    }
}
