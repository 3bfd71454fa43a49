"""Produces at a constant rate, or consumes for some time."""

from time import monotonic_ns, sleep

from confluent_kafka import Consumer, TopicPartition

from clients import finish, pace, send, take
from weir_driver import Delivery, Distribution, Refused, Seconds, make_key, make_value


def steady_produce(driver, command):
    topic, rate = command.text("topic"), command.rate()
    if not rate > 0:
        raise Refused('"rate" is not above 0')
    value = make_value(command.number("len"), command.number("seed"))
    count = int(rate * command.number("seconds"))
    delivery, latency, pacing, late = Delivery(count), Distribution(), Distribution(), []
    producer = driver.warm(topic, command)
    seconds = Seconds(command)
    ordinal = 0

    def call(due):
        nonlocal ordinal

        def report(error, _message):
            if error is None:
                late.append(monotonic_ns() - due)
            delivery.report(error)

        send(producer, command, topic, value, make_key(ordinal), report)
        ordinal += 1
        if monotonic_ns() >= seconds.next:
            latency.add(late)
            late.clear()
            seconds.tick(monotonic_ns())
        seconds.records += 1
        seconds.bytes += 8 + len(value)

    try:
        pace(producer, command, seconds.begin.at, rate, count, pacing, call)
        finish(producer, delivery, command)
    except Exception:
        driver.close()
        raise
    while (left := seconds.end - monotonic_ns()) > 0:
        seconds.tick(monotonic_ns())
        sleep(min(left / 1e9, 0.1))
    latency.add(late)
    return {**seconds.json(delivery.failed), "latency": latency.json(), "pacing": pacing.json()}


def steady_consume(settings, command):
    consumer = Consumer(settings.direct())
    try:
        consumer.assign([TopicPartition(command.text("topic"), 0, 0)])
        seconds = Seconds(command)
        while (left := seconds.end - monotonic_ns()) > 0:
            seconds.tick(monotonic_ns())
            for message in take(consumer, min(0.1, left / 1e9)):
                seconds.take(message.key(), message.value())
        return seconds.json(0)
    finally:
        consumer.close()
