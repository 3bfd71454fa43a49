"""Producers and consumers of confluent-kafka, as every command uses them."""

from contextlib import contextmanager
from time import monotonic_ns, sleep

from confluent_kafka import Consumer, KafkaException, TopicPartition

from weir_driver import PRIMER, PRIMER_VALUE, Delivery, Mark, Refused, make_key

# Number of sends after which reports are served, so that not all are served at the end.
SERVE_EVERY = 256
# Maximum number of available messages taken at once.
TAKE = 10_000


def ask_metadata(producer, topic, command):
    known = producer.list_topics(topic, timeout=command.left()).topics[topic]
    if known.error is not None:
        raise Refused(f"no metadata: {known.error}")


def prime(producer, topic, command):
    delivery = Delivery(1)
    producer.produce(topic, PRIMER_VALUE, make_key(PRIMER), 0, on_delivery=lambda error, _: delivery.report(error))
    finish(producer, delivery, command)
    if delivery.failed:
        raise Refused(f"the primer was not delivered: {delivery.errors[0]}")


def send(producer, command, topic, value, key, report):
    """Sends one record; waits while the queue is full."""
    while True:
        try:
            producer.produce(topic, value, key, 0, on_delivery=report)
            return
        except BufferError:
            if command.late():
                raise Refused("the queue of the producer stayed full") from None
            producer.poll(0.01)


def send_burst(producer, burst, command):
    topic, value, delivery = burst.topic, burst.value, burst.delivery

    def report(error, _message):
        delivery.report(error)

    for ordinal, key in enumerate(burst.keys):
        if burst.per_record:
            # The library gets no object for a record: creating it is part of sending.
            begin = monotonic_ns()
            send(producer, command, topic, value, key, report)
            burst.send_ns += monotonic_ns() - begin
        else:
            send(producer, command, topic, value, key, report)
        if not ordinal % SERVE_EVERY:
            producer.poll(0)
    burst.t1 = monotonic_ns()
    finish(producer, delivery, command)


def finish(producer, delivery, command):
    """Flushes; reports are served during the wait."""
    while delivery.missing and not command.late():
        producer.flush(min(command.left(), 1))
    delivery.check()


def pace(producer, command, begin, rate, count, pacing, call):
    """Calls at absolute times: a late call is made at once, and no call is skipped."""
    late = []
    for i in range(count):
        due = begin + int(i * 1e9 / rate)
        while (at := monotonic_ns()) < due:
            rest(producer, due - at)
        late.append(at - due)
        call(due)
        if len(late) == 10_000:
            pacing.add(late)
            late.clear()
            if command.late():
                raise Refused("not all records could be sent in time")
    pacing.add(late)


def rest(producer, nanos):
    """Waits at most this long and serves reports; the library's wait has steps of 1 ms."""
    if nanos > 2_000_000:
        producer.poll((nanos // 1_000_000 - 1) / 1e3)
    else:
        sleep(nanos / 1e9)
        producer.poll(0)


def take(consumer, timeout):
    """Returns available messages, or waits for the first one.

    Waiting for a number of messages would take the whole timeout."""
    first = consumer.poll(timeout)
    if first is None:
        return []
    messages = [first, *consumer.consume(TAKE, 0)]
    for message in messages:
        if message.error() is not None:
            raise KafkaException(message.error())
    return messages


@contextmanager
def started(reading, settings, command, via):
    """Provides a consumer of the topic, which is closed afterwards."""
    topic = command.text("topic")
    if via not in ("group", "assign"):
        raise Refused(f'unknown via "{via}"')
    consumer = Consumer(settings.group() if via == "group" else settings.direct())
    try:
        reading.s0 = Mark.begin()
        if via == "group":
            consumer.subscribe([topic], on_assign=lambda _consumer, _partitions: reading.assigned())
        else:
            consumer.assign([TopicPartition(topic, 0, 0)])
            reading.assigned()
        yield consumer
    finally:
        consumer.close()


def read(reading, settings, command, via):
    with started(reading, settings, command, via) as consumer:
        while reading.got < reading.count:
            if command.late():
                raise reading.unfinished()
            for message in take(consumer, min(0.5, command.left())):
                if reading.take(message.key(), message.value()):
                    break
        if reading.with_commit:
            consumer.commit(asynchronous=False)
            reading.s4 = monotonic_ns()


def copy(reading, delivery, settings, producer, command):
    """Sends each record of a topic to another one. Returns the time after the last send."""
    to = command.text("to")

    def report(error, _message):
        delivery.report(error)

    with started(reading, settings, command, command.text("via")) as consumer:
        while reading.got < reading.count:
            if command.late():
                raise reading.unfinished()
            for message in take(consumer, min(0.5, command.left())):
                before, key, value = reading.got, message.key(), message.value()
                is_last = reading.take(key, value)
                if reading.got > before:
                    send(producer, command, to, value, key, report)
                    if not before % SERVE_EVERY:
                        producer.poll(0)
                if is_last:
                    break
        t1 = monotonic_ns()
        finish(producer, delivery, command)
    return t1
