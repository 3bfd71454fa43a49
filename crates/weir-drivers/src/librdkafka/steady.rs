//! Executes `steady`: a constant rate, reported second by second.

use std::time::Duration;

use weir_load::pacer::{Pacer, Rate};

use super::clock::{ClockMark, DriverClock};
use super::deadline::{CommandOutcome, Deadline};
use super::histogram::DriverHistogram;
use super::reader::{DriverConsumer, ReadStep};
use super::sender::{DriverProducer, record};
use super::session::DriverSession;
use super::values::{KEY_BYTES, key, value};
use crate::{Steady, SteadyDone, SteadySecond, TopicEnd};

/// Produces or consumes for some time; calls `on_second` for each second.
pub(super) fn steady(
    session: &mut DriverSession,
    command: &Steady,
    timeout: &Deadline<'_>,
    on_second: &mut dyn FnMut(&SteadySecond),
) -> CommandOutcome<SteadyDone> {
    let clock = session.clock;
    match command.role {
        TopicEnd::Produce => {
            let value = value(command.seed, command.len)?;
            let pacer = Pacer::new(Rate::per_second(command.rate)?);
            session.with_warm_producer(&command.topic, timeout, |sender| {
                let seconds = Seconds::start(command.seconds, clock, on_second);
                produce(sender, command, &value, pacer, seconds, timeout)
            })
        }
        TopicEnd::Consume => {
            let reader = DriverConsumer::start(session, &command.topic, false)?;
            reader.assign(0)?;
            let seconds = Seconds::start(command.seconds, clock, on_second);
            consume(reader, seconds, timeout)
        }
    }
}

fn produce(
    sender: &DriverProducer,
    command: &Steady,
    value: &[u8],
    pacer: Pacer,
    mut seconds: Seconds<'_>,
    timeout: &Deadline<'_>,
) -> CommandOutcome<SteadyDone> {
    let clock = seconds.clock;
    let count = pacer.due_before(command.seconds.saturating_mul(SECOND_NS));
    let bytes = KEY_BYTES + value.len() as u64;
    let mut pacing = DriverHistogram::default();
    sender.start_command(count, true);
    for index in 0..count {
        let due_ns = seconds.started.ns + pacer.due_ns(index);
        let mut now = clock.now_ns();
        while now < due_ns {
            seconds.report_until(now);
            // Seconds and the deadline are also checked between records that are far apart.
            let until = due_ns.min(seconds.next_ns());
            now = clock.wait_until(until.min(now + CHECK_INTERVAL_NS));
            timeout.left("sent", (index, count), "")?;
        }
        seconds.report_until(now);
        pacing.record_ns(now as i64 - due_ns as i64);
        let key = key(index as i64);
        sender.send(record(&command.topic, &key, value, due_ns), timeout)?;
        seconds.add(bytes);
    }
    let (_, delivered, latency) = sender.finish(timeout)?;
    seconds.wait_for_last(timeout)?;
    Ok(SteadyDone {
        failed: delivered.failed,
        latency: Some(latency),
        pacing: Some(pacing.distribution()),
        ..seconds.end()
    })
}

fn consume(
    mut reader: DriverConsumer,
    mut seconds: Seconds<'_>,
    timeout: &Deadline<'_>,
) -> CommandOutcome<SteadyDone> {
    let clock = seconds.clock;
    loop {
        let now = clock.now_ns();
        seconds.report_until(now);
        if now >= seconds.end_ns() {
            return Ok(seconds.end());
        }
        let wait = Duration::from_nanos(seconds.next_ns() - now);
        match reader.poll(wait.min(Duration::from_nanos(CHECK_INTERVAL_NS)))? {
            ReadStep::Record(record) => seconds.add(record.bytes()),
            ReadStep::Primer => {}
            ReadStep::Nothing => {
                let records = seconds.done.records;
                reader.check_time(timeout, records, records)?;
            }
        }
    }
}

/// Reporter of seconds. The last second is reported when all work is done.
struct Seconds<'a> {
    clock: DriverClock,
    started: ClockMark,
    mark: ClockMark,
    count: u64,
    current: SteadySecond,
    done: SteadyDone,
    on_second: &'a mut dyn FnMut(&SteadySecond),
}

impl<'a> Seconds<'a> {
    fn start(count: u64, clock: DriverClock, on_second: &'a mut dyn FnMut(&SteadySecond)) -> Self {
        let started = clock.mark();
        Self {
            clock,
            started,
            mark: started,
            count,
            current: SteadySecond::default(),
            done: SteadyDone::default(),
            on_second,
        }
    }

    fn add(&mut self, bytes: u64) {
        self.current.records += 1;
        self.current.bytes += bytes;
    }

    fn end_ns(&self) -> u64 {
        self.at(self.count)
    }

    fn next_ns(&self) -> u64 {
        self.at((self.current.second + 1).min(self.count))
    }

    fn at(&self, second: u64) -> u64 {
        let after = second.saturating_mul(SECOND_NS);
        self.started.ns.saturating_add(after)
    }

    /// Reports completed seconds, except the last one, which may get late results.
    fn report_until(&mut self, now_ns: u64) {
        while self.current.second + 1 < self.count && now_ns >= self.next_ns() {
            self.report();
        }
    }

    fn report(&mut self) {
        let mark = self.clock.mark();
        self.current.cpu_us = mark.cpu_us_since(self.mark);
        self.done.records += self.current.records;
        self.done.bytes += self.current.bytes;
        (self.on_second)(&self.current);
        self.mark = mark;
        self.current = SteadySecond {
            second: self.current.second + 1,
            ..SteadySecond::default()
        };
    }

    /// Waits for the end of the last second if the work is done earlier.
    fn wait_for_last(&mut self, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        loop {
            let now = self.clock.now_ns();
            self.report_until(now);
            if now >= self.end_ns() {
                return Ok(());
            }
            timeout.left("sent", (self.done.records, self.done.records), "")?;
            let until = self.next_ns().min(now + CHECK_INTERVAL_NS);
            self.clock.wait_until(until);
        }
    }

    fn end(mut self) -> SteadyDone {
        while self.current.second < self.count {
            self.report();
        }
        self.done.cpu_us = self.mark.cpu_us_since(self.started);
        self.done
    }
}

const SECOND_NS: u64 = 1_000_000_000;
/// Maximum time until the end of the input is detected.
const CHECK_INTERVAL_NS: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_add_up_and_are_all_reported() {
        let mut reported = Vec::new();
        let mut on_second = |second: &SteadySecond| reported.push((second.second, second.records));
        let mut seconds = Seconds::start(4, DriverClock::default(), &mut on_second);
        seconds.add(10);
        seconds.report_until(seconds.at(2));
        seconds.add(10);
        seconds.add(10);
        // The last one waits for late results.
        seconds.report_until(seconds.at(9));
        seconds.add(10);
        let done = seconds.end();
        assert_eq!((done.records, done.bytes), (4, 40));
        assert_eq!(reported, [(0, 1), (1, 0), (2, 2), (3, 1)]);
    }
}
