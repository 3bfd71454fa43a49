"""Maps the protocol's settings to aiokafka's."""

import ssl
import tempfile
import uuid

from aiokafka.abc import AbstractTokenProvider

from weir_driver import check_settings, read_token

# Protocol name: library name.
PRODUCER = {
    "acks": "acks",
    "linger_ms": "linger_ms",
    "batch_bytes": "max_batch_size",
    "idempotence": "enable_idempotence",
    "compression": "compression_type",
    "max_request_bytes": "max_request_size",
}
CONSUMER = {
    "fetch_min_bytes": "fetch_min_bytes",
    "fetch_wait_ms": "fetch_max_wait_ms",
    "fetch_partition_bytes": "max_partition_fetch_bytes",
    "check_crcs": "check_crcs",
}
GROUP = {
    "auto_commit": "enable_auto_commit",
    "auto_commit_ms": "auto_commit_interval_ms",
}
# Behaviour of the library without such a setting.
INSTEAD = {
    # No number of records closes a batch, as 0 requests.
    "batch_records": 0,
    # A broker gets the next request after its response to the previous one.
    "max_in_flight": 1,
    # The library retries until the request timeout.
    "retries": None,
    # A partition has one open batch; a sender waits if it is full.
    "queue_bytes": None,
    "queue_records": None,
    # Sockets have the operating system's defaults.
    "send_buffer_bytes": 0,
    "receive_buffer_bytes": 0,
}


class Settings:
    """Configuration of clients and its report: the library cannot report its settings."""

    def __init__(self, bootstrap, security, asked):
        self.asked = asked
        check_settings(asked, {**PRODUCER, **CONSUMER, **GROUP})
        common = {"bootstrap_servers": bootstrap, **security}
        self.producer = {**common, **self._taken(PRODUCER)}
        if self.producer.get("compression_type") == "none":
            self.producer["compression_type"] = None
        self.consumer = {**common, **self._taken(CONSUMER)}
        self.of_groups = {"auto_offset_reset": "earliest", **self._taken(GROUP)}

    def _taken(self, names):
        return {theirs: self.asked[name] for name, theirs in names.items() if name in self.asked}

    def direct(self, commits=False):
        """Creates a consumer with an assigned partition; to commit it needs a group id."""
        group = f"weir-{uuid.uuid4()}" if commits else None
        return {**self.consumer, "enable_auto_commit": False, "group_id": group}

    def group(self):
        return {**self.consumer, **self.of_groups, "group_id": f"weir-{uuid.uuid4()}"}

    def echo(self):
        known = {**PRODUCER, **CONSUMER, **GROUP}
        effective = {name: value if name in known else INSTEAD.get(name) for name, value in self.asked.items()}
        return {"effective": effective, "unsupported": [name for name in self.asked if name not in known]}


class RunToken(AbstractTokenProvider):
    """The token of the run."""

    def __init__(self, token):
        self._token = token

    async def token(self):
        return self._token


def security(client):
    """Returns encryption and login of a client file with librdkafka's names."""
    given = client.get("properties", {})
    if not given:
        return {}
    taken = {"security_protocol": given.get("security.protocol", "plaintext").upper()}
    if taken["security_protocol"].endswith("SSL"):
        taken["ssl_context"] = _ssl_context(given)
    mechanism = given.get("sasl.mechanism")
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        taken["sasl_mechanism"] = mechanism
        taken["sasl_plain_username"] = given["sasl.username"]
        taken["sasl_plain_password"] = given["sasl.password"]
    elif mechanism == "OAUTHBEARER":
        taken["sasl_mechanism"] = mechanism
        taken["sasl_oauth_token_provider"] = RunToken(read_token(client))
    elif mechanism is not None:
        raise ValueError(f"this driver does not support {mechanism}")
    return taken


def _ssl_context(given):
    context = ssl.create_default_context(cadata=given.get("ssl.ca.pem"))
    context.check_hostname = given.get("ssl.endpoint.identification.algorithm") != "none"
    if "ssl.certificate.pem" in given:
        # The module reads certificates from files only. This one is private and deleted at once.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(given["ssl.certificate.pem"] + given["ssl.key.pem"])
            file.flush()
            context.load_cert_chain(file.name)
    return context
