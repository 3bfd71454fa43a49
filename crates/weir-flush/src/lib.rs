//! librdkafka's flush with a timeout.
//!
//! librdkafka sends batches before their linger time (`linger.ms`) ends only while its flush
//! function runs. The binding calls that function without a timeout and waits elsewhere, so its own
//! flush does not reliably send them. This crate contains the only unsafe code of the project;
//! decision 0042 gives the reasons.

use std::time::Duration;

use rdkafka::bindings::rd_kafka_flush;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;

/// Flushes lingering batches and waits until every queued record has a delivery report. Waits up to
/// `timeout`, truncated to milliseconds, at most 24 days. Returns `true` if all records are
/// reported.
///
/// Does not handle the delivery reports of the binding's producers: another thread must poll.
///
/// # Errors
///
/// [`KafkaError::Flush`] if the client is not a producer.
pub fn flush<C: ClientContext>(client: &Client<C>, timeout: Duration) -> KafkaResult<bool> {
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the handle is valid while `client` is borrowed, librdkafka functions may be called
    // from any thread, and this one does not retain its arguments.
    #[expect(
        unsafe_code,
        reason = "the binding has no such function: decision 0042"
    )]
    let code = unsafe { rd_kafka_flush(client.native_ptr(), timeout_ms) };
    match code {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(true),
        RDKafkaRespErr::RD_KAFKA_RESP_ERR__TIMED_OUT => Ok(false),
        error => Err(KafkaError::Flush(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

    use super::*;

    /// Returns the configuration of a broker that does not exist: nothing listens on port 1.
    fn client_config() -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", "127.0.0.1:1");
        config
    }

    #[test]
    fn flush_returns_true_without_pending_records() {
        let producer: BaseProducer = client_config().create().expect("a producer");
        let timeout = Duration::from_millis(1);
        assert_eq!(
            flush(producer.client(), timeout),
            Ok(true),
            "nothing to send"
        );
        let record = BaseRecord::<str, str>::to("topic").payload("value");
        producer.send(record).expect("queued");
        assert_eq!(flush(producer.client(), timeout), Ok(false));
    }

    #[test]
    fn flush_of_consumer_is_an_error() {
        let consumer: BaseConsumer = client_config().create().expect("a consumer");
        let error = flush(consumer.client(), Duration::ZERO).expect_err("not a producer");
        assert!(matches!(error, KafkaError::Flush(_)), "{error}");
    }
}
