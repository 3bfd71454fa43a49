"""A producer and a consumer of the same topic in one event loop."""

import asyncio
from time import monotonic_ns

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from clients import YIELD_EVERY, count_report, finish, give_up, pace, prime, start_direct
from weir_driver import PRIMER, START, Delivery, Distribution, Mark, instants, key_number, make_key, make_value


class Roundtrip:
    """The consumer is a separate task."""

    def __init__(self, command):
        self.topic = command.text("topic")
        self.count = command.number("count")
        self.rate = command.rate()
        self.value = make_value(command.number("len"), command.number("seed"))
        self.delivery = Delivery(self.count)
        self.latency = []
        self.last = Mark.end()
        self.primed = asyncio.Event()

    async def run(self, settings):
        producer = AIOKafkaProducer(**settings.producer)
        consumer = AIOKafkaConsumer(**settings.direct())
        reader = None
        try:
            await producer.start()
            await start_direct(consumer, self.topic, lambda: None)
            reader = asyncio.create_task(self.read(consumer))
            await prime(producer, self.topic)
            primed = asyncio.create_task(self.primed.wait())
            await asyncio.wait((reader, primed), return_when=asyncio.FIRST_COMPLETED)
            if not primed.done():
                primed.cancel()
                reader.result()
            return await self.measure(producer, reader)
        finally:
            if reader is not None:
                reader.cancel()
            await give_up(consumer, 2)
            await give_up(producer, 2)

    async def measure(self, producer, reader):
        pacing = Distribution()
        t0 = Mark.begin()
        if self.rate > 0:
            await pace(t0.at, self.rate, self.count, pacing, lambda due: self.send(producer, due))
        else:
            for i in range(self.count):
                await self.send(producer, monotonic_ns())
                if not i % YIELD_EVERY:
                    await asyncio.sleep(0)
        t1 = monotonic_ns()
        await finish(producer, self.delivery)
        await reader
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

    async def send(self, producer, instant):
        future = await producer.send(self.topic, self.value, make_key(instant - START), 0)
        future.add_done_callback(self.report)

    def report(self, future):
        count_report(self.delivery, future)

    async def read(self, consumer):
        while not (self.primed.is_set() and len(self.latency) >= self.count):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    number = key_number(record.key)
                    if number == PRIMER:
                        self.primed.set()
                    elif number is not None:
                        self.latency.append(monotonic_ns() - START - number)
        self.last = Mark.end()
