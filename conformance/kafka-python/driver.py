"""A client on aiokafka: writes and reads through the brokers it is given, as its users would.

    driver.py BOOTSTRAP TOPIC GROUP TRANSACTIONAL_ID COUNT

The topic exists and is empty. Prints one line of JSON; ends with an error if anything fails.
"""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient


async def produce(bootstrap, topic, count):
    for number, codec in enumerate([None, "gzip"]):
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=True
        )
        await producer.start()
        try:
            sent = [
                await producer.send(topic, f"value-{value:06}".encode())
                for value in range(number, count, 2)
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()


async def transact(bootstrap, topic, transactional_id):
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    await producer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted")
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"committed")
    finally:
        await producer.stop()


async def consume(bootstrap, topic, group, count):
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
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


async def addresses(bootstrap):
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        cluster = await admin.describe_cluster()
        return [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]]
    finally:
        await admin.close()


async def main(bootstrap, topic, group, transactional_id, count):
    await produce(bootstrap, topic, int(count))
    await transact(bootstrap, topic, transactional_id)
    values = await consume(bootstrap, topic, group, int(count) + 1)
    print(json.dumps({"values": values, "brokers": await addresses(bootstrap)}))


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 90))
