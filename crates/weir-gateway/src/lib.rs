//! Kafka topics to TLCP clients: ingest, item table, shards, admission, metrics.
