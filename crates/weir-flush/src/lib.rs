//! librdkafka's flush with a time-out.
//!
//! librdkafka sends batches that wait for company (`linger.ms`) for as long as a call of its flush
//! lasts. The binding calls it without a time-out and waits elsewhere, so its flush ends that wait by
//! chance only. This is the only unsafe code of the project; what earned it is decision 0042.

use std::time::Duration;

use rdkafka::bindings::rd_kafka_flush;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;

/// Sends what waits for company and waits until every record handed over has been reported, for at
/// most `wait` (whole milliseconds count, and at most 24 days); whether all have been.
///
/// Does not serve the reports of the binding's producers: another thread has to poll meanwhile.
///
/// # Errors
///
/// [`KafkaError::Flush`] for a client that is not a producer.
pub fn flush<C: ClientContext>(client: &Client<C>, wait: Duration) -> KafkaResult<bool> {
    let wait = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the handle is valid for as long as `client` is borrowed, librdkafka's calls may be made
    // from any thread, and this one keeps nothing of what it is given.
    #[expect(unsafe_code, reason = "the binding has no such call: decision 0042")]
    let answer = unsafe { rd_kafka_flush(client.native_ptr(), wait) };
    match answer {
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

    /// Of a broker that is not there: port 1 needs rights to listen on, and nothing does.
    fn settings() -> ClientConfig {
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", "127.0.0.1:1");
        settings
    }

    #[test]
    fn it_tells_whether_all_records_have_been_reported() {
        let producer: BaseProducer = settings().create().expect("a producer");
        let wait = Duration::from_millis(1);
        assert_eq!(flush(producer.client(), wait), Ok(true), "nothing to send");
        let record = BaseRecord::<str, str>::to("topic").payload("value");
        producer.send(record).expect("there is room in its queue");
        assert_eq!(flush(producer.client(), wait), Ok(false));
    }

    #[test]
    fn a_consumer_is_refused() {
        let consumer: BaseConsumer = settings().create().expect("a consumer");
        let refused = flush(consumer.client(), Duration::ZERO).expect_err("not a producer");
        assert!(matches!(refused, KafkaError::Flush(_)), "{refused}");
    }
}
