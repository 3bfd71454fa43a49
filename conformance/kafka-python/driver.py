"""A Kafka client with aiokafka: writes and reads through the given brokers.

    driver.py BOOTSTRAP TOPIC GROUP TRANSACTIONAL_ID COUNT [SETTINGS]

The topic must exist and be empty. SETTINGS is a JSON object with further arguments of aiokafka's
clients; `cafile` contains trusted CAs, and `resolve` is the address of all host names. Prints one line of JSON; exits with an error on any failure.
"""

import asyncio
import json
import socket
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.helpers import create_ssl_context


async def produce(brokers, topic, count):
    for number, codec in enumerate([None, "gzip"]):
        producer = AIOKafkaProducer(compression_type=codec, enable_idempotence=True, **brokers)
        await producer.start()
        try:
            sent = [
                await producer.send(topic, f"value-{value:06}".encode())
                for value in range(number, count, 2)
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()


async def transact(brokers, topic, transactional_id):
    producer = AIOKafkaProducer(transactional_id=transactional_id, **brokers)
    await producer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"committed")
    finally:
        await producer.stop()


async def consume(brokers, topic, group, count):
    consumer = AIOKafkaConsumer(
        topic,
        group_id=group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        **brokers,
    )
    await consumer.start()
    try:
        values = []
        while len(values) < count:
            values.append((await consumer.getone()).value.decode())
        await consumer.commit()
        return values
    finally:
        await consumer.stop()


async def addresses(brokers):
    admin = AIOKafkaAdminClient(**brokers)
    await admin.start()
    try:
        cluster = await admin.describe_cluster()
        return [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
    finally:
        await admin.close()


def resolve_all(address):
    """Gives all host names an address, as a wildcard entry in DNS does."""
    lookup = socket.getaddrinfo
    socket.getaddrinfo = lambda host, *more, **named: lookup(address, *more, **named)


async def main(bootstrap, topic, group, transactional_id, count, settings="{}"):
    brokers = {"bootstrap_servers": bootstrap, **json.loads(settings)}
    if "resolve" in brokers:
        resolve_all(brokers.pop("resolve"))
    if "cafile" in brokers:
        brokers["ssl_context"] = create_ssl_context(cafile=brokers.pop("cafile"))
    await produce(brokers, topic, int(count))
    await transact(brokers, topic, transactional_id)
    values = await consume(brokers, topic, group, int(count) + 1)
    print(json.dumps({"values": values, "brokers": await addresses(brokers)}))


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 90))
