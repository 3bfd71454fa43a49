//! Results of all sessions of a process: latencies, deliveries, errors.

use std::collections::BTreeMap;

use super::options::ClientsOptions;
use super::reference_values::ReferenceValues;
use super::session::{ClientPhase, SimulatedClient};
use super::target::RequestTexts;
use super::verify::{ClientCheck, DecodeContext, ExpectedUpdate, ReceivedUpdate, RecordIdentity};
use crate::clock::Clock;
use crate::delivery::{Conflation, DeliveryCheck, count_error};
use crate::due_text::DueReader;
use crate::keys::{KeyId, KeyTable};
use crate::local_time::LocalTime;
use crate::meter::DeliveryRecorder;
use crate::published_report::PublishedReporter;
use crate::share::WorkerShare;
use crate::stamp::Stamp;
use crate::worker::protocol::Schedule;

/// Shared results; a separate type, so that a session can be borrowed at the same time.
#[derive(Debug)]
pub(super) struct SessionTotals {
    pub(super) clock: Clock,
    pub(super) meter: DeliveryRecorder,
    due: DueReader,
    pub(super) keys: KeyTable,
    /// Keys of records without a key, and of records identified by partition and offset.
    no_key: KeyId,
    position_key: KeyId,
    pub(super) schedule: Option<Schedule>,
    pub(super) errors: BTreeMap<String, u64>,
    /// Numbers of sessions that are live, and that have ended.
    pub(super) live: usize,
    pub(super) ended: usize,
    /// Sessions that ended after they had been live.
    pub(super) disconnects: u64,
    /// Updates of records without a mark, which are not timed with `marked_only`.
    pub(super) background: u64,
    /// Updates timed by the timestamp of their record.
    pub(super) from_timestamp: u64,
    pub(super) published: Option<PublishedReporter>,
    pub(super) reference: ReferenceValues,
}

impl SessionTotals {
    pub(super) fn new(options: &ClientsOptions, clock: Clock) -> Self {
        let mut keys = KeyTable::default();
        let [no_key, position_key] =
            [b"".as_slice(), POSITION].map(|name| keys.id(name).expect("table is empty"));
        Self {
            clock,
            meter: DeliveryRecorder::new(clock.now_unix_ns()).with_share(options.share),
            due: DueReader::with_member("timestamp", LocalTime::system()),
            keys,
            no_key,
            position_key,
            schedule: None,
            errors: BTreeMap::new(),
            live: 0,
            ended: 0,
            disconnects: 0,
            background: 0,
            from_timestamp: 0,
            published: options
                .published_report
                .map(|interval| match options.share {
                    WorkerShare::WHOLE => PublishedReporter::start(interval),
                    _ => PublishedReporter::start_share(),
                }),
            reference: ReferenceValues::new(),
        }
    }

    /// Returns the number of a client's key. If the table is full, further keys share the number of
    /// the empty key.
    pub(super) fn key_id(&mut self, key: &str) -> KeyId {
        self.keys.id(key.as_bytes()).unwrap_or(self.no_key)
    }

    /// Decodes an update, records its latency and checks its delivery. Counts an error if it cannot
    /// be decoded or has no time.
    pub(super) fn on_update(
        &mut self,
        session: &mut SimulatedClient,
        payload: &[u8],
        target: &RequestTexts<'_>,
        key_id: KeyId,
        read_unix_ns: u64,
    ) {
        let check = &mut session.check;
        let expected = match target.keyed {
            true => ExpectedUpdate::Key(&target.keys[session.key as usize], key_id),
            false => ExpectedUpdate::All(self.no_key),
        };
        let mut decoding = DecodeContext {
            due: &mut self.due,
            keys: &mut self.keys,
            marks: target.options.marked_only,
        };
        let received = match check.read(payload, expected, &target.fields, &mut decoding) {
            Ok(received) => received,
            Err(fault) => {
                self.meter.updates += 1;
                return self.error(&fault.to_string());
            }
        };
        if let (RecordIdentity::Stamp(stamp), true) =
            (&received.identity, target.options.verify_values)
        {
            let values = check.values();
            if !values.is_none_or(|values| self.reference.agrees(key_id, stamp, values)) {
                self.error("update whose values differ from those of a client without diffs");
            }
        }
        let record_timestamps = target.options.record_timestamps;
        let stored_ms = received.stored_ms.filter(|_| record_timestamps);
        let stored_unix_ns = stored_ms.map(|ms| ms.saturating_mul(1_000_000));
        let Some(due_unix_ns) = received.due_unix_ns.or(stored_unix_ns) else {
            self.meter.updates += 1;
            check.checker.on_unstamped(false);
            return self.error(NO_TIME);
        };
        self.from_timestamp += u64::from(received.due_unix_ns.is_none());
        let in_window = self.record_latency(check, &received, due_unix_ns, target, read_unix_ns);
        let verdict = self.deliver(check, &received, due_unix_ns, target, in_window);
        let state = check.state_due_unix_ns.replace(due_unix_ns);
        if let (DeliveryCheck::AfterGap(_), true, Some(state)) = (verdict, in_window, state) {
            if check.checker.conflation() == Conflation::Allowed {
                let age_ns = read_unix_ns.saturating_sub(state);
                self.meter.record_state_age(age_ns);
            }
        }
    }

    /// Records the latency. Returns `true` if the record was due in the measured window.
    fn record_latency(
        &mut self,
        check: &mut ClientCheck,
        received: &ReceivedUpdate,
        due_unix_ns: u64,
        target: &RequestTexts<'_>,
        read_unix_ns: u64,
    ) -> bool {
        let schedule = self.schedule.as_ref();
        if target.options.marked_only && !received.marked {
            self.background += 1;
            return self.meter.record_background(due_unix_ns, schedule);
        }
        if let Some(published) = &mut self.published {
            published.record(due_unix_ns, read_unix_ns);
        }
        let stamp = match &received.identity {
            RecordIdentity::Stamp(stamp) => Some(stamp),
            _ => None,
        };
        let meter = &mut self.meter;
        let response_ns = meter.record(due_unix_ns, stamp, read_unix_ns, schedule);
        if let Some(response_ns) = response_ns {
            check.latency.record_ns(response_ns);
            if let Some(stored_ms) = received.stored_ms {
                self.meter.record_stored(stored_ms, read_unix_ns);
            }
        }
        response_ns.is_some()
    }

    /// Checks that the record is the next one of this client.
    fn deliver(
        &self,
        check: &mut ClientCheck,
        received: &ReceivedUpdate,
        due_unix_ns: u64,
        target: &RequestTexts<'_>,
        in_window: bool,
    ) -> DeliveryCheck {
        let checker = &mut check.checker;
        match (received.identity, received.key) {
            (RecordIdentity::Stamp(stamp), Some(key)) => {
                checker.on_delivery(key, &stamp, in_window)
            }
            (RecordIdentity::Position { partition, offset }, _) => {
                // Partition numbers are not negative.
                let partition = u32::try_from(partition).unwrap_or(u32::MAX);
                if target.keyed {
                    let key = self.position_key;
                    return checker.on_sparse_offset(key, partition, offset, in_window);
                }
                let position = Stamp {
                    due_unix_ns,
                    producer: partition,
                    seq: offset,
                    sent_unix_ns: None,
                };
                checker.on_delivery(self.position_key, &position, in_window)
            }
            _ => {
                checker.on_unstamped(in_window);
                DeliveryCheck::Unknown
            }
        }
    }

    /// Ends a session, unless it has ended, and counts the error `text`.
    pub(super) fn end(&mut self, session: &mut SimulatedClient, text: &str) {
        if session.phase == ClientPhase::Ended {
            return;
        }
        if session.phase == ClientPhase::Live {
            self.live -= 1;
            self.disconnects += 1;
        }
        session.phase = ClientPhase::Ended;
        self.ended += 1;
        self.error(text);
    }

    pub(super) fn error(&mut self, text: &str) {
        count_error(&mut self.errors, text);
    }
}

const NO_TIME: &str =
    "update without stamp or timestamp (map field.ts to #{TIMESTAMP}, name ts in --fields)";
/// Key of all records that are identified by partition and offset; no record has this key.
const POSITION: &[u8] = b"\0position";
