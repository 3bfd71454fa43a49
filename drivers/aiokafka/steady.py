"""Produces at a constant rate, or consumes for some time."""

import asyncio
from time import monotonic_ns

from aiokafka import AIOKafkaConsumer

from clients import count_report, finish, give_up, pace, start_direct
from weir_driver import Delivery, Distribution, Refused, Seconds, make_key, make_value


async def steady_produce(driver, command):
    topic, rate = command.text("topic"), command.rate()
    if not rate > 0:
        raise Refused('"rate" is not above 0')
    value = make_value(command.number("len"), command.number("seed"))
    count = int(rate * command.number("seconds"))
    delivery, latency, pacing, late = Delivery(count), Distribution(), Distribution(), []
    producer = await driver.warm(topic)
    seconds = Seconds(command)
    ordinal = 0

    async def call(due):
        nonlocal ordinal

        def report(future):
            if future.exception() is None:
                late.append(monotonic_ns() - due)
            count_report(delivery, future)

        future = await producer.send(topic, value, make_key(ordinal), 0)
        future.add_done_callback(report)
        ordinal += 1
        if monotonic_ns() >= seconds.next:
            latency.add(late)
            late.clear()
            seconds.tick(monotonic_ns())
        seconds.records += 1
        seconds.bytes += 8 + len(value)

    await pace(seconds.begin.at, rate, count, pacing, call)
    await finish(producer, delivery)
    while (left := seconds.end - monotonic_ns()) > 0:
        seconds.tick(monotonic_ns())
        await asyncio.sleep(min(left / 1e9, 0.1))
    latency.add(late)
    return {**seconds.json(delivery.failed), "latency": latency.json(), "pacing": pacing.json()}


async def steady_consume(settings, command):
    consumer = AIOKafkaConsumer(**settings.direct())
    try:
        await start_direct(consumer, command.text("topic"), lambda: None)
        seconds = Seconds(command)
        while (left := seconds.end - monotonic_ns()) > 0:
            seconds.tick(monotonic_ns())
            taken = await consumer.getmany(timeout_ms=min(100, left / 1e6))
            for records in taken.values():
                for record in records:
                    seconds.take(record.key, record.value)
        return seconds.json(0)
    finally:
        await give_up(consumer, 2)
