//! Writes client messages of one Kafka connection to its brokers, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use smallvec::SmallVec;
use weir_kafka::{
    DeliveryError, DeliveryReport, Producer, ProducerConfig, ProducerError, SendError,
};
use weir_net::limited;

use super::service::{MessageQueue, Messages, OutgoingMessage};
use weir_ingest::KafkaConnection;

/// Time between two checks whether the gateway stops.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two replacements of a producer that has failed.
const REPLACE_INTERVAL: Duration = Duration::from_secs(5);
/// Time at shutdown for records without an acknowledgement.
const LAST_FLUSH: Duration = Duration::from_secs(2);
/// Records of one batch wait this long for more.
const LINGER_MS: f64 = 1.0;
/// Wakes an event loop.
pub(crate) type Waker = Box<dyn Fn() + Send + Sync>;

struct Writer {
    config: ProducerConfig,
    producer: Option<Producer>,
    started: Instant,
    sink: Arc<ResultSink>,
}

/// Passes results on to event loops.
struct ResultSink {
    messages: Arc<Messages>,
    wakers: Arc<[Waker]>,
}

/// Starts a writer for each queue. Each closes its channel after it has reported its last result.
pub(crate) fn start(
    queues: Vec<MessageQueue>,
    messages: &Arc<Messages>,
    connections: &[Arc<KafkaConnection>],
    wakers: Arc<[Waker]>,
    stop: &Arc<AtomicBool>,
) -> std::io::Result<Vec<(JoinHandle<()>, Receiver<()>)>> {
    let start = |queue: MessageQueue| {
        let connection = &connections[queue.connection];
        let sink = ResultSink {
            messages: Arc::clone(messages),
            wakers: Arc::clone(&wakers),
        };
        let mut writer = Writer {
            config: producer_config(connection, messages.limits.delivery_timeout_ms),
            producer: None,
            started: Instant::now(),
            sink: Arc::new(sink),
        };
        let (posting, posted) = crossbeam_channel::bounded(0);
        let stop = Arc::clone(stop);
        let thread = std::thread::Builder::new()
            .name(format!("messages-{}", queue.connection))
            .spawn(move || {
                writer.start_producer();
                writer.run(queue.receiver, &stop);
                drop(posting);
            })?;
        Ok((thread, posted))
    };
    queues.into_iter().map(start).collect()
}

fn producer_config(connection: &KafkaConnection, delivery_timeout_ms: u64) -> ProducerConfig {
    let own = connection.cluster.producer_settings();
    ProducerConfig {
        kafka: own.with_property("message.timeout.ms", delivery_timeout_ms),
        client_id: format!("weir-gateway-{}-messages", connection.config.name),
        linger_ms: LINGER_MS,
        ..ProducerConfig::default()
    }
}

impl Writer {
    fn run(&mut self, queue: Receiver<OutgoingMessage>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            match queue.recv_timeout(STOP_INTERVAL) {
                Ok(message) => self.write(&message),
                Err(RecvTimeoutError::Timeout) => self.replace_failed(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        queue.try_iter().for_each(|message| self.write(&message));
        // From now on event loops see that there is no writer.
        drop(queue);
        if let Some(producer) = self.producer.take() {
            producer.flush(LAST_FLUSH);
        }
    }

    fn write(&mut self, message: &OutgoingMessage) {
        let error = match &self.producer {
            Some(producer) => send(producer, message).err().map(|error| error.to_string()),
            None => Some("there is no Kafka client".to_owned()),
        };
        if let Some(error) = error {
            // The record was not queued, so it is not stored.
            let result = Err(DeliveryError::Refused(error));
            self.sink.report(message.token, result);
            self.replace_failed();
        }
    }

    /// Replaces a producer that cannot send any more.
    fn replace_failed(&mut self) {
        let error = match &self.producer {
            Some(producer) => producer.fatal_error(),
            None => Some("it did not start".to_owned()),
        };
        let Some(error) = error else { return };
        if self.started.elapsed() >= REPLACE_INTERVAL {
            let client = &self.config.client_id;
            tracing::warn!(
                client,
                error,
                "replaced the Kafka client of client messages"
            );
            self.start_producer();
        }
    }

    fn start_producer(&mut self) {
        self.started = Instant::now();
        self.producer = None;
        match self.new_producer() {
            Ok(producer) => self.producer = Some(producer),
            Err(error) => {
                let client = &self.config.client_id;
                tracing::error!(client, %error, "Kafka client of client messages not started");
            }
        }
    }

    fn new_producer(&self) -> Result<Producer, ProducerError> {
        let sink = Arc::clone(&self.sink);
        let on_delivery = move |report: DeliveryReport| {
            sink.report(report.token, report.result.map(|_| ()));
        };
        Producer::start(&self.config, Box::new(on_delivery))
    }
}

fn send(producer: &Producer, message: &OutgoingMessage) -> Result<(), SendError> {
    let prog = message.prog.map(|prog| prog.to_string());
    let sender = &message.sender;
    // Clients cannot set headers, so a consumer can rely on these.
    let headers = [
        ("weir-user", Some(&*sender.rights.user)),
        ("weir-issuer", Some(&*sender.rights.issuer)),
        ("weir-session", Some(&*sender.handle)),
        ("weir-sequence", message.sequence.as_deref()),
        ("weir-prog", prog.as_deref()),
    ];
    let is_set = |value: &&str| !value.is_empty();
    let headers: SmallVec<[(&str, &[u8]); 5]> = headers
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(is_set)?.as_bytes())))
        .collect();
    let key = message.key.as_deref().map(str::as_bytes);
    let (topic, value) = (&*message.topic, Some(message.text.as_bytes()));
    producer.send(topic, None, key, value, &headers, None, message.token)
}

impl ResultSink {
    fn report(&self, token: u64, result: Result<(), DeliveryError>) {
        if let Err(error) = &result {
            limited!(
                warn, "client message not written", %error,
                "a client message was not written to Kafka"
            );
        }
        let shard = self.messages.put_result(token, result);
        if let Some(wake) = self.wakers.get(shard) {
            wake();
        }
    }
}
