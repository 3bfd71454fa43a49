"""Driver of aiokafka.

It executes one JSON command per line of standard input and writes one response per line to standard
output. The protocol is in docs/drivers.md. The event loop runs only during commands."""

import asyncio
import os
import sys

# The shared module of the Python drivers is next to this file or in the directory `python`.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from clients import copy, give_up, prime, read, send_burst
from roundtrip import Roundtrip
from settings import Settings, security
from steady import steady_consume, steady_produce
from weir_driver import Burst, Delivery, Mark, Reading, Refused, serve


class Driver:
    def __init__(self):
        self.settings = None
        self.kept = None
        # The topic to which the reused producer has delivered a primer.
        self.primed = None

    async def configure(self, command):
        await self.close()
        client = command.client_file()
        self.settings = Settings(command.text("bootstrap"), security(client), command.get("settings"))
        # Creating a client validates the settings.
        await AIOKafkaProducer(**self.settings.producer).stop()
        await AIOKafkaConsumer(**self.settings.group()).stop()
        return {**self.settings.echo(), "client_file": bool(client)}

    async def close(self):
        """Discards the reused producer with its queued records."""
        if self.kept is not None:
            await give_up(self.kept, 1)
        self.kept = None
        self.primed = None

    async def bye(self, _command):
        await self.close()

    def configured(self):
        if self.settings is None:
            raise Refused("configure comes first")
        return self.settings

    async def produce(self, command):
        burst = Burst(command)
        state = command.text("state")
        if state == "warm":
            await self.send_warm(burst, command)
        elif state in ("cold", "metadata"):
            await self.send_new(burst, state == "metadata")
        else:
            raise Refused(f'unknown state "{state}"')
        return burst.json()

    async def send_new(self, burst, ask_first):
        settings = self.configured()
        burst.t0 = Mark.begin()
        producer = AIOKafkaProducer(**settings.producer)
        try:
            await producer.start()
            if ask_first:
                await producer.partitions_for(burst.topic)
                burst.t0 = Mark.begin()
            await send_burst(producer, burst)
        finally:
            await give_up(producer, 2)

    async def send_warm(self, burst, command):
        producer = await self.warm(burst.topic)
        burst.t0 = Mark.begin()
        await send_burst(producer, burst)

    async def warm(self, topic):
        """Returns the reused producer, which has delivered a primer to the topic.

        It drops previous topics, whose metadata it would otherwise request repeatedly, even after
        their deletion."""
        if self.kept is None:
            self.kept = AIOKafkaProducer(**self.configured().producer)
            await self.kept.start()
        if topic != self.primed:
            await self.kept.client.set_topics([topic])
            await prime(self.kept, topic)
            self.primed = topic
        return self.kept

    async def warmup(self, command):
        burst = Burst(command)
        await self.send_warm(burst, command)
        if burst.delivery.failed:
            raise Refused(f"records of the warm-up failed: {burst.delivery.errors[0]}")
        reading = Reading(command)
        await read(reading, self.settings, command, "assign")
        return {
            "produce_cpu_us_per_record": burst.cpu_us_per_record(),
            "consume_cpu_us_per_record": reading.cpu_us_per_record() if reading.count else 0,
        }

    async def consume(self, command):
        reading = Reading(command, command.flag("verify"), command.flag("commit"))
        await read(reading, self.configured(), command, command.text("via"))
        return reading.json()

    async def copy(self, command):
        settings, producer = self.configured(), await self.warm(command.text("to"))
        reading = Reading(command)
        delivery = Delivery(reading.count)
        t1 = await copy(reading, delivery, settings, producer, command)
        return reading.copied(delivery, t1)

    async def roundtrip(self, command):
        return await Roundtrip(command).run(self.configured())

    async def steady(self, command):
        role = command.text("role")
        if role == "produce":
            return await steady_produce(self, command)
        if role == "consume":
            return await steady_consume(self.configured(), command)
        raise Refused(f'unknown role "{role}"')


def in_loop(loop, driver, operation):
    """Runs the operation in the event loop until the deadline."""

    def run(command):
        async def bounded():
            try:
                return await asyncio.wait_for(operation(command), command.left())
            except (TimeoutError, asyncio.TimeoutError):
                await driver.close()
                raise Refused("it was not done in time") from None
            except Exception:
                # Records that a failed command left in the reused producer must not be sent later.
                await driver.close()
                raise

        return loop.run_until_complete(bounded())

    return run


def main():
    loop = asyncio.new_event_loop()
    driver = Driver()
    hello = {
        "library": "aiokafka",
        "library_version": aiokafka.__version__,
        "binding": "",
        "capabilities": [
            "produce.cold", "produce.metadata", "produce.warm", "consume.group", "consume.assign",
            "copy.group", "copy.assign", "roundtrip.burst", "roundtrip.open", "steady.produce",
            "steady.consume",
        ],
    }
    names = ("configure", "warmup", "produce", "consume", "copy", "roundtrip", "steady", "bye")
    serve(hello, {name: in_loop(loop, driver, getattr(driver, name)) for name in names})


if __name__ == "__main__":
    main()
