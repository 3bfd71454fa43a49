//! Kafka: wire frames, record batches, ingest and produce over librdkafka, lean consumers.
