"""A producer and a consumer of the same topic in one process."""

import threading
from time import monotonic_ns

from confluent_kafka import Consumer, Producer, TopicPartition

from clients import SERVE_EVERY, finish, pace, prime, send, take
from weir_driver import PRIMER, START, Delivery, Distribution, Mark, Refused, instants, key_number, make_key, make_value


class Roundtrip:
    """The consumer has its own thread."""

    def __init__(self, settings, command):
        self.settings = settings
        self.command = command
        self.topic = command.text("topic")
        self.count = command.number("count")
        self.rate = command.rate()
        self.value = make_value(command.number("len"), command.number("seed"))
        self.delivery = Delivery(self.count)
        self.latency = []
        self.last = Mark.end()
        self.primed = threading.Event()
        self.done = threading.Event()
        self.stopped = False
        self.error = None

    def run(self):
        reader = threading.Thread(target=self.read)
        producer = Producer(self.settings.producer)
        reader.start()
        try:
            prime(producer, self.topic, self.command)
            self.wait(self.primed, "the consumer did not get the primer in time")
            return self.measure(producer)
        finally:
            self.stopped = True
            reader.join()
            producer.purge()

    def measure(self, producer):
        pacing = Distribution()
        t0 = Mark.begin()
        if self.rate > 0:
            pace(producer, self.command, t0.at, self.rate, self.count, pacing, lambda due: self.send(producer, due))
        else:
            for i in range(self.count):
                self.send(producer, monotonic_ns())
                if not i % SERVE_EVERY:
                    producer.poll(0)
        t1 = monotonic_ns()
        finish(producer, self.delivery, self.command)
        self.wait(self.done, "not all records came back in time")
        t2, r1 = self.delivery.last, self.last
        latency = Distribution()
        latency.add(self.latency)
        return {
            "marks": instants(t0=t0.at, t1=t1, t2=max(t0.at, t2.at), r1=max(t0.at, r1.at)),
            "cpu_us": (r1 if r1.at > t2.at else t2).cpu_us(t0),
            **self.delivery.json(),
            "got": len(self.latency),
            "latency": latency.json(),
            "pacing": pacing.json(),
        }

    def send(self, producer, instant):
        send(producer, self.command, self.topic, self.value, make_key(instant - START), self.report)

    def report(self, error, _message):
        self.delivery.report(error)

    def wait(self, event, late):
        came = event.wait(self.command.left())
        if self.error is not None:
            raise Refused(f"the consumer failed: {self.error}")
        if not came:
            raise Refused(late)

    def read(self):
        consumer = Consumer(self.settings.direct())
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            while not self.stopped and not (self.primed.is_set() and len(self.latency) >= self.count):
                for message in take(consumer, 0.2):
                    number = key_number(message.key())
                    if number == PRIMER:
                        self.primed.set()
                    elif number is not None:
                        self.latency.append(monotonic_ns() - START - number)
            self.last = Mark.end()
        except Exception as error:
            self.error = error
            self.primed.set()
        finally:
            self.done.set()
            consumer.close()
