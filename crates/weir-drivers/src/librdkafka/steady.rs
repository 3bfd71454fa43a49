//! Work at a steady rate, told second by second.

use std::time::Duration;

use crate::{Steady, SteadyDone, SteadySecond, TopicEnd};

use super::CommandOutcome;
use super::deadline::Deadline;
use super::histogram::DriverHistogram;
use super::reader::{DriverConsumer, ReadStep};
use super::roundtrip::wait_until;
use super::sender::{DriverProducer, late};
use super::session::DriverSession;
use super::usage::{ClockMark, DriverClock};
use super::values::{KEY_BYTES, key, value};
use weir_load::pacer::{Pacer, Rate};

/// Produces or consumes for a time; `on_second` hears of each second.
pub(super) fn steady(
    session: &mut DriverSession,
    asked: &Steady,
    timeout: &Deadline<'_>,
    on_second: &mut dyn FnMut(&SteadySecond),
) -> CommandOutcome<SteadyDone> {
    let clock = session.clock();
    match asked.role {
        TopicEnd::Produce => {
            let value = value(asked.seed, asked.len)?;
            let pacer = Pacer::new(Rate::per_second(asked.rate)?);
            session.with_kept(&asked.topic, timeout, |sender| {
                let seconds = Seconds::start(asked.seconds, clock, on_second);
                produce(sender, asked, &value, pacer, seconds, timeout)
            })
        }
        TopicEnd::Consume => {
            let reader = DriverConsumer::start(session.configured()?, &asked.topic, false, clock)?;
            reader.assign(0)?;
            let seconds = Seconds::start(asked.seconds, clock, on_second);
            consume(reader, seconds, timeout)
        }
    }
}

fn produce(
    sender: &DriverProducer,
    asked: &Steady,
    value: &[u8],
    pacer: Pacer,
    mut seconds: Seconds<'_>,
    timeout: &Deadline<'_>,
) -> CommandOutcome<SteadyDone> {
    let clock = seconds.clock;
    let count = pacer.due_before(asked.seconds.saturating_mul(SECOND_NS));
    let bytes = KEY_BYTES + value.len() as u64;
    let mut pacing = DriverHistogram::default();
    sender.begin(count, true);
    for index in 0..count {
        let due_ns = seconds.begun.ns + pacer.due_ns(index);
        let mut now = clock.now_ns();
        while now < due_ns {
            seconds.tell_until(now);
            // Seconds are told and ends noticed also between records that are far apart.
            now = wait_until(clock, due_ns.min(seconds.next_ns()).min(now + LOOK_NS));
            let left = timeout.left();
            left.map_err(|over| late("sent", index, count, over, ""))?;
        }
        seconds.tell_until(now);
        pacing.record_ns(now as i64 - due_ns as i64);
        let key = key(index as i64);
        sender.send(&asked.topic, &key, value, due_ns, timeout)?;
        seconds.add(bytes);
    }
    let reported = sender.finish(timeout)?;
    seconds.wait_for_last(timeout)?;
    Ok(SteadyDone {
        failed: reported.failed,
        latency: Some(reported.latency),
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
        seconds.tell_until(now);
        if now >= seconds.over_ns() {
            return Ok(seconds.end());
        }
        let wait = Duration::from_nanos(seconds.next_ns() - now);
        match reader.turn(wait.min(Duration::from_nanos(LOOK_NS)))? {
            ReadStep::Record(record) => seconds.add(record.bytes()),
            ReadStep::Primer => {}
            ReadStep::Nothing => {
                reader.go_on(timeout, seconds.records, seconds.records)?;
            }
        }
    }
}

/// Tells seconds as they end; the last one when all is done.
struct Seconds<'a> {
    clock: DriverClock,
    begun: ClockMark,
    /// When the second that goes on has begun.
    mark: ClockMark,
    count: u64,
    told: u64,
    /// Of the second that goes on.
    now: (u64, u64),
    records: u64,
    bytes: u64,
    on_second: &'a mut dyn FnMut(&SteadySecond),
}

impl<'a> Seconds<'a> {
    fn start(count: u64, clock: DriverClock, on_second: &'a mut dyn FnMut(&SteadySecond)) -> Self {
        let begun = clock.mark();
        Self {
            clock,
            begun,
            mark: begun,
            count,
            told: 0,
            now: (0, 0),
            records: 0,
            bytes: 0,
            on_second,
        }
    }

    fn add(&mut self, bytes: u64) {
        self.now.0 += 1;
        self.now.1 += bytes;
    }

    /// When the last second is over.
    fn over_ns(&self) -> u64 {
        self.at(self.count)
    }

    /// When the second that goes on is over.
    fn next_ns(&self) -> u64 {
        self.at((self.told + 1).min(self.count))
    }

    fn at(&self, second: u64) -> u64 {
        self.begun
            .ns
            .saturating_add(second.saturating_mul(SECOND_NS))
    }

    /// Tells the seconds that are over, but not the last: something may come late.
    fn tell_until(&mut self, now_ns: u64) {
        while self.told + 1 < self.count && now_ns >= self.next_ns() {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let mark = self.clock.mark();
        let (records, bytes) = std::mem::take(&mut self.now);
        self.records += records;
        self.bytes += bytes;
        (self.on_second)(&SteadySecond {
            second: self.told,
            records,
            bytes,
            cpu_us: mark.cpu_us_since(self.mark),
        });
        self.mark = mark;
        self.told += 1;
    }

    /// Work that is done early is not over before its time.
    fn wait_for_last(&mut self, timeout: &Deadline<'_>) -> CommandOutcome<()> {
        loop {
            let now = self.clock.now_ns();
            self.tell_until(now);
            if now >= self.over_ns() {
                return Ok(());
            }
            let left = timeout.left();
            left.map_err(|over| late("sent", self.records, self.records, over, ""))?;
            wait_until(self.clock, self.next_ns().min(now + LOOK_NS));
        }
    }

    fn end(mut self) -> SteadyDone {
        while self.told < self.count {
            self.tell();
        }
        SteadyDone {
            records: self.records,
            bytes: self.bytes,
            failed: 0,
            cpu_us: self.mark.cpu_us_since(self.begun),
            latency: None,
            pacing: None,
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;
/// How long the end of the input may go unnoticed.
const LOOK_NS: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_add_up_and_all_are_told() {
        let mut told = Vec::new();
        let mut on_second = |second: &SteadySecond| told.push((second.second, second.records));
        let mut seconds = Seconds::start(4, DriverClock::start(), &mut on_second);
        seconds.add(10);
        seconds.tell_until(seconds.at(2));
        seconds.add(10);
        seconds.add(10);
        // The last one waits for what comes late.
        seconds.tell_until(seconds.at(9));
        seconds.add(10);
        let done = seconds.end();
        assert_eq!((done.records, done.bytes), (4, 40));
        assert_eq!(told, [(0, 1), (1, 0), (2, 2), (3, 1)]);
    }
}
