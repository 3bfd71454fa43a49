"""Producers and consumers of aiokafka, as every command uses them."""

import asyncio
import sys
from contextlib import asynccontextmanager
from time import monotonic_ns

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from weir_driver import PRIMER, PRIMER_VALUE, Mark, Refused, make_key, reason

# Number of sends after which a late sender yields to other tasks.
YIELD_EVERY = 100


async def give_up(client, timeout):
    """Stops a client, which might wait for undeliverable records."""
    try:
        await asyncio.wait_for(client.stop(), timeout)
    except Exception as error:
        print(f"a client did not stop: {reason(error)}", file=sys.stderr)


def count_report(delivery, future):
    error = future.exception()
    delivery.report(None if error is None else reason(error))


async def prime(producer, topic):
    try:
        await producer.send_and_wait(topic, PRIMER_VALUE, make_key(PRIMER), 0)
    except KafkaError as error:
        raise Refused(f"the primer was not delivered: {reason(error)}") from None


async def send(producer, delivery, topic, value, key, report):
    try:
        future = await producer.send(topic, value, key, 0)
    except KafkaError as error:
        delivery.report(reason(error))
    else:
        future.add_done_callback(report)


async def send_burst(producer, burst):
    topic, value, delivery = burst.topic, burst.value, burst.delivery

    def report(future):
        count_report(delivery, future)

    for key in burst.keys:
        # The library gets no object for a record: creating it is part of sending.
        begin = monotonic_ns() if burst.per_record else 0
        await send(producer, delivery, topic, value, key, report)
        if burst.per_record:
            burst.send_ns += monotonic_ns() - begin
    burst.t1 = monotonic_ns()
    await finish(producer, delivery)


async def finish(producer, delivery):
    """Flushes; the event loop calls the report callbacks shortly afterwards."""
    await producer.flush()
    while delivery.missing:
        await asyncio.sleep(0)


async def pace(begin, rate, count, pacing, call):
    """Calls at absolute times: a late call is made at once, and no call is skipped."""
    late = []
    for i in range(count):
        due = begin + int(i * 1e9 / rate)
        if not i % YIELD_EVERY:
            await asyncio.sleep(0)
        while (at := monotonic_ns()) < due:
            await asyncio.sleep((due - at) / 1e9)
        late.append(at - due)
        await call(due)
        if len(late) == 10_000:
            pacing.add(late)
            late.clear()
    pacing.add(late)


class Assigned(ConsumerRebalanceListener):
    """Stores the time of the assignment."""

    def __init__(self, reading):
        self.reading = reading

    async def on_partitions_revoked(self, revoked):
        pass

    async def on_partitions_assigned(self, assigned):
        if assigned:
            self.reading.assigned()


async def start_direct(consumer, topic, assigned):
    """Reads partition 0 from its start."""
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    assigned()
    await consumer.start()
    consumer.seek(partition, 0)


@asynccontextmanager
async def started(reading, settings, command, via):
    """Provides a consumer of the topic, which is stopped afterwards."""
    topic = command.text("topic")
    if via not in ("group", "assign"):
        raise Refused(f'unknown via "{via}"')
    config = settings.group() if via == "group" else settings.direct(reading.with_commit)
    consumer = AIOKafkaConsumer(**config)
    try:
        reading.s0 = Mark.begin()
        if via == "group":
            consumer.subscribe([topic], listener=Assigned(reading))
            await consumer.start()
        else:
            await start_direct(consumer, topic, reading.assigned)
        yield consumer
    finally:
        await give_up(consumer, 5)


async def read(reading, settings, command, via):
    async with started(reading, settings, command, via) as consumer:
        while reading.got < reading.count:
            if command.late():
                raise reading.unfinished()
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    if reading.take(record.key, record.value):
                        break
        if reading.with_commit:
            await consumer.commit()
            reading.s4 = monotonic_ns()


async def copy(reading, delivery, settings, producer, command):
    """Sends each record of a topic to another one. Returns the time after the last send."""
    to = command.text("to")

    def report(future):
        count_report(delivery, future)

    async with started(reading, settings, command, command.text("via")) as consumer:
        while reading.got < reading.count:
            if command.late():
                raise reading.unfinished()
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    before = reading.got
                    is_last = reading.take(record.key, record.value)
                    if reading.got > before:
                        await send(producer, delivery, to, record.value, record.key, report)
                    if is_last:
                        break
        t1 = monotonic_ns()
        await finish(producer, delivery)
    return t1
