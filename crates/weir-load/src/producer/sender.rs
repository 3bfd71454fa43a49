//! Sending loop: waits until records are due and sends all that are due.

use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use weir_kafka::{Producer, SendError, TransactionError};

use super::meter::PublishRecorder;
use super::options::{ProducerNumbers, ProducerOptions};
use super::tracker::{AckQueue, ProduceAck, Tracker};
use super::transactions::Transactions;
use crate::clock::{Clock, nanos};
use crate::delivery::count_error;
use crate::pacer::Pacer;
use crate::payload::{KeyChoice, PayloadGenerator};
use crate::stamp::{DUE_HEADER, SEQ_HEADER, Stamp, TEXT_HEADER, TEXT_STAMP_LEN_MAX};
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{ProduceSummary, Schedule, WorkerCommand};

pub(super) struct ProduceTarget<'a> {
    pub(super) producer: &'a Producer,
    pub(super) acks: &'a AckQueue,
    pub(super) clock: Clock,
    pub(super) topics: Vec<TargetTopic>,
    /// The record's name selects the partition, not its key.
    pub(super) partitions_by_name: bool,
}

pub(super) struct TargetTopic {
    pub(super) name: String,
    pub(super) partitions: usize,
}

pub(super) struct ScheduledSender<'a> {
    options: &'a ProducerOptions,
    numbers: ProducerNumbers,
    schedule: Schedule,
    target: ProduceTarget<'a>,
    link: &'a CoordinatorChannel,
    pacer: Pacer,
    key_choice: KeyChoice,
    payloads: PayloadGenerator,
    text_stamp: Vec<u8>,
    tracker: Tracker,
    meter: PublishRecorder,
    transactions: Option<Transactions<'a>>,
    /// End of the last commit. Records that became due before it have waited for the transaction,
    /// not for the sender.
    committed_unix_ns: u64,
    /// Acknowledgements to process; swapped with the shared queue to hold its lock only briefly.
    taken: Vec<ProduceAck>,
    next: u64,
    sent: u64,
    bytes_sent: u64,
    queue_full: u64,
    last_send_unix_ns: u64,
    /// Records due at the end of the schedule or at the stop.
    due_at_end: Option<u64>,
    next_report: Instant,
    stopping: bool,
}

impl<'a> ScheduledSender<'a> {
    pub(super) fn new(
        options: &'a ProducerOptions,
        numbers: ProducerNumbers,
        schedule: Schedule,
        target: ProduceTarget<'a>,
        payloads: PayloadGenerator,
        link: &'a CoordinatorChannel,
    ) -> Self {
        let streams = payloads.names().len() * numbers.producers as usize;
        Self {
            options,
            numbers,
            schedule,
            link,
            pacer: Pacer::new(numbers.rate).share(numbers.share),
            key_choice: KeyChoice::new(
                options.key_distribution,
                payloads.names().len(),
                options.seed(),
            ),
            payloads,
            text_stamp: Vec::with_capacity(TEXT_STAMP_LEN_MAX),
            tracker: Tracker::new(streams, schedule),
            meter: PublishRecorder::new(target.clock.now_unix_ns(), numbers.share),
            transactions: options
                .transaction_duration
                .map(|duration| Transactions::new(target.producer, duration)),
            committed_unix_ns: 0,
            taken: Vec::new(),
            next: 0,
            sent: 0,
            bytes_sent: 0,
            queue_full: 0,
            last_send_unix_ns: 0,
            due_at_end: None,
            next_report: Instant::now() + REPORT_INTERVAL,
            stopping: false,
            target,
        }
    }

    /// Follows the schedule to its end, waits for acknowledgements and returns the summary.
    pub(super) fn run(mut self) -> ProduceSummary {
        self.follow_schedule();
        self.commit(true);
        // On a stop command, records that became due but were not sent do not count.
        self.due_at_end = Some(if self.stopping { self.next } else { self.due() });
        let deadline = Instant::now() + self.options.drain;
        while self.tracker.unacknowledged() > 0 && Instant::now() < deadline {
            self.poll_housekeeping();
            thread::sleep(DRAIN_POLL);
        }
        self.take_acks();
        self.report();
        self.summary()
    }

    fn follow_schedule(&mut self) {
        loop {
            self.poll_housekeeping();
            let limit = self.limit();
            if self.next >= limit || self.stopping {
                return;
            }
            let due = self.due_by_now().min(limit);
            while self.next < due && !self.stopping {
                self.send_next();
                if self.next % HOUSEKEEPING_RECORDS == 0 {
                    self.poll_housekeeping();
                }
            }
            if self.next < self.limit() {
                self.sleep_until_next();
            }
        }
    }

    /// Returns the number of records in the whole schedule.
    fn limit(&self) -> u64 {
        let by_time = match self.numbers.rate.is_unlimited() {
            true if self.target.clock.now_unix_ns() >= self.schedule.stop_unix_ns => self.next,
            true => u64::MAX,
            false => self.due_before(self.schedule.stop_unix_ns),
        };
        let count = self.options.count.unwrap_or(u64::MAX);
        self.numbers.share.count(count).min(by_time)
    }

    /// Returns the number of records due before `unix_ns`.
    fn due_before(&self, unix_ns: u64) -> u64 {
        let start_unix_ns = self.schedule.start_unix_ns;
        self.pacer.due_before(unix_ns.saturating_sub(start_unix_ns))
    }

    fn due_by_now(&self) -> u64 {
        if self.numbers.rate.is_unlimited() {
            return self.next + HOUSEKEEPING_RECORDS;
        }
        self.due_before(self.target.clock.now_unix_ns().saturating_add(1))
    }

    fn due(&self) -> u64 {
        if self.numbers.rate.is_unlimited() {
            return self.next;
        }
        let due = || self.due_by_now().min(self.limit());
        self.due_at_end.unwrap_or_else(due)
    }

    fn sleep_until_next(&self) {
        let wake_ns = self.pacer.wake_ns(self.next);
        let wake = self.schedule.start_unix_ns.saturating_add(wake_ns);
        let now = Instant::now();
        let until = self.target.clock.instant(wake).min(now + COMMAND_POLL);
        let commit = self.transactions.as_ref().and_then(Transactions::until);
        let until = until.min(commit.unwrap_or(until));
        if let Some(pause) = until.min(self.next_report).checked_duration_since(now) {
            thread::sleep(pause);
        }
    }

    /// Sends record `next`; while the queue is full, it waits until the run ends. The key is drawn
    /// once per record, so that the same seed gives the same records regardless of the queue.
    /// Without a rate, the record is due when the queue has space.
    fn send_next(&mut self) {
        let index = self.next;
        if !self.begin() {
            return;
        }
        self.next += 1;
        let is_unlimited = self.numbers.rate.is_unlimited();
        let mut due_unix_ns = match is_unlimited {
            true => self.target.clock.now_unix_ns(),
            false => self.schedule.start_unix_ns + self.pacer.due_ns(index),
        };
        // A remainder of a u32 fits a u32.
        let producer = (index % u64::from(self.numbers.producers)) as u32;
        let key = self.payloads.next_name(&mut self.key_choice);
        let stream = key * self.numbers.producers as usize + producer as usize;
        let mut stamp = Stamp {
            due_unix_ns,
            producer: self.numbers.producer(producer),
            seq: self.tracker.next_seq(stream),
            sent_unix_ns: None,
        };
        let mut delayed = false;
        loop {
            let sent_unix_ns = self.target.clock.now_unix_ns();
            stamp.sent_unix_ns = Some(sent_unix_ns);
            if is_unlimited {
                due_unix_ns = sent_unix_ns;
                stamp.due_unix_ns = sent_unix_ns;
            }
            match self.try_send(key, &stamp, !delayed || is_unlimited) {
                Ok(bytes) => {
                    self.sent += 1;
                    self.bytes_sent += bytes as u64;
                    self.last_send_unix_ns = sent_unix_ns;
                    self.tracker.sent(stream, &stamp, sent_unix_ns);
                    let free_unix_ns = due_unix_ns.max(self.committed_unix_ns);
                    let lag_ns = sent_unix_ns.saturating_sub(free_unix_ns);
                    self.meter.lag(lag_ns, self.schedule.in_window(due_unix_ns));
                    return;
                }
                Err(SendError::Fatal(reason)) => {
                    self.tracker.rejected(stream, &stamp, &reason);
                    return;
                }
                Err(SendError::QueueFull) => {
                    self.queue_full += u64::from(!delayed);
                    delayed = true;
                    if !self.wait_for_queue_space() {
                        return;
                    }
                }
            }
        }
    }

    /// Passes one record to the Kafka library. Returns the bytes of key and value. `fresh` creates
    /// the record; a retry uses the existing one with the new stamp.
    fn try_send(&mut self, key: usize, stamp: &Stamp, fresh: bool) -> Result<usize, SendError> {
        match fresh {
            true => self.payloads.make(key, stamp),
            false => self.payloads.stamp_again(key, stamp),
        }
        let topics = &self.target.topics;
        let topic = &topics[stamp.producer as usize % topics.len()];
        // The remainder is less than the number of partitions, an `i32`.
        let by_name = (key % topic.partitions.max(1)) as i32;
        let partition = self.target.partitions_by_name.then_some(by_name);
        let (key, value) = (self.payloads.key(key), self.payloads.value());
        let (due, seq) = (stamp.due_header(), stamp.seq_header());
        stamp.write_text(&mut self.text_stamp);
        let headers: [(&str, &[u8]); 3] = [
            (DUE_HEADER, &due),
            (SEQ_HEADER, &seq),
            (TEXT_HEADER, &self.text_stamp),
        ];
        let headers = match (!self.options.no_stamp, self.options.text_stamp) {
            (false, _) => &[],
            (true, false) => &headers[..2],
            (true, true) => &headers[..],
        };
        // Only replayed records have headers of their own.
        let own = self.payloads.headers().iter();
        let (added, all): (Vec<_>, Vec<_>);
        let headers = match own.len() + self.options.headers.len() {
            0 => headers,
            _ => {
                let add = self.options.headers.iter();
                added = add.map(|it| (&it.name, it.value(key))).collect();
                let own = own.map(|(name, value)| (name.as_str(), value.as_slice()));
                let own = own.chain(
                    added
                        .iter()
                        .map(|(name, it)| (name.as_str(), it.as_slice())),
                );
                all = own.chain(headers.iter().copied()).collect();
                &all
            }
        };
        let token = self.tracker.next_token() as u64;
        let producer = self.target.producer;
        producer.send(
            &topic.name,
            partition,
            key,
            Some(value),
            headers,
            None,
            token,
        )?;
        Ok(value.len() + key.map_or(0, <[u8]>::len))
    }

    /// Waits briefly for queue space. Returns `false` if the run is over.
    fn wait_for_queue_space(&mut self) -> bool {
        thread::sleep(QUEUE_FULL_PAUSE);
        self.poll_housekeeping();
        let drain_ns = nanos(self.options.drain);
        let last = self.schedule.stop_unix_ns.saturating_add(drain_ns);
        !self.stopping && self.target.clock.now_unix_ns() < last
    }

    /// Begins a transaction if the record needs one. Returns `false` if the run ends with an error.
    fn begin(&mut self) -> bool {
        let begun = self.transactions.as_mut().map(Transactions::begin);
        self.continue_after(begun)
    }

    /// Commits the transaction if its time is over, or in any case if `at_end`.
    fn commit(&mut self, at_end: bool) {
        let Some(transactions) = &mut self.transactions else {
            return;
        };
        let was_open = transactions.until().is_some();
        let committed = transactions.commit(at_end);
        if was_open && transactions.until().is_none() {
            self.committed_unix_ns = self.target.clock.now_unix_ns();
        }
        self.continue_after(Some(committed));
    }

    /// Ends the run after a failed transaction, because its result would not be valid.
    fn continue_after(&mut self, outcome: Option<Result<(), TransactionError>>) -> bool {
        let Some(Err(error)) = outcome else {
            return true;
        };
        count_error(&mut self.tracker.errors, &error.to_string());
        self.stopping = true;
        false
    }

    fn poll_housekeeping(&mut self) {
        self.take_acks();
        self.commit(false);
        self.stopping |= self.link.take_commands(|command| {
            if let WorkerCommand::Start(schedule) = command {
                // Due times stay the same.
                let start_unix_ns = self.schedule.start_unix_ns;
                self.schedule = Schedule {
                    start_unix_ns,
                    ..schedule
                };
                self.tracker.window = self.schedule;
            }
        });
        if Instant::now() >= self.next_report {
            self.next_report += REPORT_INTERVAL;
            self.report();
        }
    }

    fn take_acks(&mut self) {
        let shared = self.target.acks.lock();
        std::mem::swap(
            &mut *shared.unwrap_or_else(PoisonError::into_inner),
            &mut self.taken,
        );
        for ack in self.taken.drain(..) {
            if let Some(acked) = self.tracker.acknowledged(&ack) {
                self.meter.ack(&acked);
            }
        }
    }

    fn report(&mut self) {
        let counters = [
            ("due", self.due()),
            ("sent", self.sent),
            ("acked", self.tracker.acked),
            ("failed", self.tracker.failed),
            ("in_flight", self.tracker.unacknowledged() as u64),
            ("bytes_sent", self.bytes_sent),
            ("wire_bytes_sent", self.target.producer.wire_bytes()),
            ("queue_full", self.queue_full),
        ];
        let now_unix_ns = self.target.clock.now_unix_ns();
        self.meter.report(&self.link.events, now_unix_ns, &counters);
    }

    fn summary(self) -> ProduceSummary {
        let (due, schedule) = (self.due(), self.schedule);
        let due_until = self.due_before(schedule.measure_until_unix_ns).min(due);
        let due_from = self.due_before(schedule.measure_from_unix_ns).min(due);
        let [schedule_lag, publish_ack] = self.meter.totals();
        let numbers = self.numbers;
        let due_in_window = match numbers.rate.is_unlimited() {
            true => schedule_lag.count,
            false => due_until.saturating_sub(due_from),
        };
        let producers = (0..numbers.producers).map(|index| numbers.producer(index));
        let producers: Vec<u32> = producers.collect();
        let names = self.payloads.names();
        ProduceSummary {
            target_rate_millis: numbers.rate.millis(),
            elapsed_ns: self
                .last_send_unix_ns
                .saturating_sub(schedule.start_unix_ns),
            due,
            sent: self.sent,
            acked: self.tracker.acked,
            failed: self.tracker.failed,
            unacknowledged: self.tracker.unacknowledged() as u64,
            due_in_window,
            acked_in_window: self.tracker.acked_in_window,
            bytes_sent: self.bytes_sent,
            wire_bytes_sent: self.target.producer.wire_bytes(),
            queue_full: self.queue_full,
            schedule_lag,
            publish_ack,
            transactions: self.transactions.as_ref().map(Transactions::summary),
            errors: self.tracker.errors.clone(),
            ledger: self.tracker.into_ledger(names, &producers),
        }
    }
}

const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time until a stop command is handled.
const COMMAND_POLL: Duration = Duration::from_millis(20);
/// Number of records after which a sender that catches up handles acknowledgements and commands.
const HOUSEKEEPING_RECORDS: u64 = 256;
/// Wait for a full queue of 100,000 records, which drains much faster. The wait counts as lag.
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(500);
const DRAIN_POLL: Duration = Duration::from_millis(1);
