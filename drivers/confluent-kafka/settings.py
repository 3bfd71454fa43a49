"""Maps the protocol's settings to librdkafka's."""

import time
import uuid

from weir_driver import check_settings, read_token

# Protocol name: library name.
PRODUCER = {
    "acks": "acks",
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "batch_records": "batch.num.messages",
    "max_in_flight": "max.in.flight.requests.per.connection",
    "retries": "message.send.max.retries",
    "idempotence": "enable.idempotence",
    "compression": "compression.codec",
    "queue_bytes": "queue.buffering.max.kbytes",
    "queue_records": "queue.buffering.max.messages",
    "max_request_bytes": "message.max.bytes",
}
SOCKETS = {
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
}
CONSUMER = {
    "fetch_min_bytes": "fetch.min.bytes",
    "fetch_wait_ms": "fetch.wait.max.ms",
    "fetch_partition_bytes": "fetch.message.max.bytes",
    "check_crcs": "check.crcs",
}
GROUP = {
    "auto_commit": "enable.auto.commit",
    "auto_commit_ms": "auto.commit.interval.ms",
}
# Longer than a run, for which there is one token. The broker knows how long it is valid.
TOKEN_LIFETIME_S = 24 * 3600
# Meaning of 0 for settings where the library has a maximum.
BATCH_RECORDS_MAX = 1_000_000


class Settings:
    """Configuration of clients and its report: the binding cannot read effective settings."""

    def __init__(self, bootstrap, client, asked):
        self.asked = asked
        check_settings(asked, {**PRODUCER, **SOCKETS, **CONSUMER, **GROUP})
        self.common = {**client.get("properties", {}), "bootstrap.servers": bootstrap}
        token = read_token(client)
        if token is not None:
            self.common["oauth_cb"] = lambda _config: (token, time.time() + TOKEN_LIFETIME_S)
        self._take(self.common, SOCKETS)
        self.producer = dict(self.common)
        self._take(self.producer, PRODUCER)
        self.consumer = dict(self.common)
        self._take(self.consumer, CONSUMER)
        self.of_groups = {"auto.offset.reset": "earliest"}
        self._take(self.of_groups, GROUP)

    def _take(self, config, names):
        for name, theirs in names.items():
            if name in self.asked:
                config[theirs] = _given(name, self.asked[name])

    def direct(self):
        """Configuration of a consumer with an assigned partition; a group id is required."""
        return {**self.consumer, "group.id": f"weir-{uuid.uuid4()}", "enable.auto.commit": False}

    def group(self):
        return {**self.consumer, **self.of_groups, "group.id": f"weir-{uuid.uuid4()}"}

    def echo(self):
        known = {**PRODUCER, **SOCKETS, **CONSUMER, **GROUP}
        effective = {name: _effective(name, value) if name in known else None for name, value in self.asked.items()}
        return {"effective": effective, "unsupported": [name for name in self.asked if name not in known]}


def _given(name, value):
    if name == "queue_bytes":
        return max(1, -(-value // 1024))
    if name == "batch_records" and value == 0:
        return BATCH_RECORDS_MAX
    return value


def _effective(name, value):
    if name == "queue_bytes":
        return _given(name, value) * 1024
    return value
