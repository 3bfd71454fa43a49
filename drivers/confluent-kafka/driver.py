"""Driver of librdkafka through confluent-kafka for Python.

It executes one JSON command per line of standard input and writes one response per line to standard
output. The protocol is in docs/drivers.md."""

import os
import sys

# The shared module of the Python drivers is next to this file or in the directory `python`.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))

import confluent_kafka
from confluent_kafka import Consumer, Producer

from clients import ask_metadata, copy, prime, read, send_burst
from roundtrip import Roundtrip
from settings import Settings
from steady import steady_consume, steady_produce
from weir_driver import Burst, Delivery, Mark, Reading, Refused, serve


class Driver:
    def __init__(self):
        self.settings = None
        self.kept = None
        # Topics to which the reused producer has delivered a primer.
        self.primed = set()

    def configure(self, command):
        self.close()
        client = command.client_file()
        settings = Settings(command.text("bootstrap"), client, command.get("settings"))
        # Creating a client validates the settings.
        Producer(settings.producer)
        Consumer(settings.group()).close()
        self.settings = settings
        return {**settings.echo(), "client_file": bool(client)}

    def close(self):
        """Discards the reused producer with its queued records."""
        if self.kept is not None:
            self.kept.purge()
        self.kept = None
        self.primed.clear()

    def bye(self, _command):
        self.close()

    def configured(self):
        if self.settings is None:
            raise Refused("configure comes first")
        return self.settings

    def produce(self, command):
        settings = self.configured()
        burst = Burst(command)
        state = command.text("state")
        if state == "cold":
            burst.t0 = Mark.begin()
            send_burst(Producer(settings.producer), burst, command)
        elif state == "metadata":
            producer = Producer(settings.producer)
            ask_metadata(producer, burst.topic, command)
            burst.t0 = Mark.begin()
            send_burst(producer, burst, command)
        elif state == "warm":
            self.send_warm(burst, command)
        else:
            raise Refused(f'unknown state "{state}"')
        return burst.json()

    def send_warm(self, burst, command):
        producer = self.warm(burst.topic, command)
        burst.t0 = Mark.begin()
        try:
            send_burst(producer, burst, command)
        except Exception:
            self.close()
            raise

    def warm(self, topic, command):
        """Returns the reused producer, which has delivered a primer to the topic."""
        if self.kept is None:
            self.kept = Producer(self.configured().producer)
        if topic not in self.primed:
            try:
                prime(self.kept, topic, command)
            except Exception:
                self.close()
                raise
            self.primed.add(topic)
        return self.kept

    def warmup(self, command):
        self.configured()
        burst = Burst(command)
        self.send_warm(burst, command)
        if burst.delivery.failed:
            raise Refused(f"records of the warm-up failed: {burst.delivery.errors[0]}")
        reading = Reading(command)
        read(reading, self.settings, command, "assign")
        return {
            "produce_cpu_us_per_record": burst.cpu_us_per_record(),
            "consume_cpu_us_per_record": reading.cpu_us_per_record() if reading.count else 0,
        }

    def consume(self, command):
        reading = Reading(command, command.flag("verify"), command.flag("commit"))
        read(reading, self.configured(), command, command.text("via"))
        return reading.json()

    def copy(self, command):
        settings, producer = self.configured(), self.warm(command.text("to"), command)
        reading = Reading(command)
        delivery = Delivery(reading.count)
        try:
            t1 = copy(reading, delivery, settings, producer, command)
        except Exception:
            self.close()
            raise
        return reading.copied(delivery, t1)

    def roundtrip(self, command):
        return Roundtrip(self.configured(), command).run()

    def steady(self, command):
        role = command.text("role")
        if role == "produce":
            self.configured()
            return steady_produce(self, command)
        if role == "consume":
            return steady_consume(self.configured(), command)
        raise Refused(f'unknown role "{role}"')


def main():
    driver = Driver()
    hello = {
        "library": "librdkafka",
        "library_version": confluent_kafka.libversion()[0],
        "binding": f"confluent-kafka for Python {confluent_kafka.__version__}",
        "capabilities": [
            "produce.cold", "produce.metadata", "produce.warm", "consume.group", "consume.assign",
            "copy.group", "copy.assign", "roundtrip.burst", "roundtrip.open", "steady.produce",
            "steady.consume",
        ],
    }
    names = ("configure", "warmup", "produce", "consume", "copy", "roundtrip", "steady", "bye")
    serve(hello, {name: getattr(driver, name) for name in names})


if __name__ == "__main__":
    main()
