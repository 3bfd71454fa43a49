// Reads a topic from its beginning and passes key and value of each record on.
import { createRequire } from "node:module";

// Packages of the directory in PEERS_NODE_MODULES, else those next to this file.
const require = createRequire(`${process.env.PEERS_NODE_MODULES ?? import.meta.dirname}/`);

export function need(...names) {
  try {
    const packages = [...names, "kafkajs"].map((name) => require(name));
    if (process.argv[2] === "--check") process.exit(0);
    return packages;
  } catch (error) {
    console.error(error.message.split("\n")[0]);
    process.exit(1);
  }
}

export async function follow(bootstrap, topic, onRecord) {
  const { Kafka, logLevel } = require("kafkajs");
  const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({ groupId: `peers-${topic}`, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => onRecord(String(message.key), String(message.value)),
  });
}
