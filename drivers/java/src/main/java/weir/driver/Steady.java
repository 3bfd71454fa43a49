package weir.driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Produces at a constant rate, or consumes for some time, and reports the results of each second.
 */
final class Steady {
    private static final Duration POLL = Duration.ofMillis(100);

    /** Totals, and the results of the current second. */
    private static final class Seconds {
        private final Command command;
        private final int seconds;
        final long begin;
        private final long cpuAtStart = Usage.cpuNanos();
        private long reportedCpu = cpuAtStart;
        private int reported;
        private long records;
        private long bytes;
        private long allRecords;
        private long allBytes;

        Seconds(Command command) {
            this.command = command;
            seconds = command.number("seconds");
            begin = Usage.now();
        }

        void count(long size) {
            records++;
            bytes += size;
        }

        /** Reports the completed seconds, except the last one, which ends with the command. */
        void tick(long now) {
            while (reported < seconds - 1 && now - begin >= (reported + 1) * 1_000_000_000L) report();
        }

        /** Returns the remaining time. */
        long left(long now) {
            return begin + seconds * 1_000_000_000L - now;
        }

        /** Waits until the time is over. */
        void rest() {
            for (long now = Usage.now(); left(now) > 0; now = Usage.now()) {
                tick(now);
                LockSupport.parkNanos(Math.min(left(now), 100_000_000));
            }
        }

        void finish(ObjectNode answer, long failed) {
            while (reported < seconds) report();
            answer.put("records", allRecords).put("bytes", allBytes).put("failed", failed);
            answer.put("cpu_us", (reportedCpu - cpuAtStart) / 1000);
        }

        private void report() {
            // Whole microseconds since the start, so that the seconds add up to the sum.
            long cpu = Usage.cpuNanos();
            long used = (cpu - cpuAtStart) / 1000 - (reportedCpu - cpuAtStart) / 1000;
            reportedCpu = cpu;
            ObjectNode event = Main.JSON.createObjectNode();
            event.set("id", command.get("id"));
            event.put("event", "second").put("second", reported++);
            event.put("records", records).put("bytes", bytes).put("cpu_us", used);
            Main.say(event);
            allRecords += records;
            allBytes += bytes;
            records = 0;
            bytes = 0;
        }
    }

    private Steady() {}

    static void produce(Producing producing, Command command, ObjectNode answer) throws Exception {
        String topic = command.text("topic");
        byte[] value = Values.make(command.number("len"), command.seed());
        double rate = command.rate();
        if (!(rate > 0)) throw new IllegalArgumentException("\"rate\" is not above 0");
        long count = (long) (rate * command.number("seconds"));
        Delivery delivery = new Delivery(count);
        Distribution latency = new Distribution();
        Distribution pacing = new Distribution();
        KafkaProducer<byte[], byte[]> producer = producing.warm(topic, command);
        Seconds seconds = new Seconds(command);
        long[] ordinal = {0};
        try {
            Pacer.run(seconds.begin, rate, count, pacing, due -> {
                producer.send(new ProducerRecord<>(topic, 0, Values.key(ordinal[0]++), value), (metadata, error) -> {
                    if (error == null) record(latency, due);
                    delivery.onCompletion(metadata, error);
                });
                if (delivery.hasFailures() && command.late()) throw new IllegalStateException(delivery.unfinished());
                seconds.tick(Usage.now());
                seconds.count(Long.BYTES + value.length);
            });
            producer.flush();
            delivery.await(command);
        } catch (Exception e) {
            producing.discard();
            throw e;
        }
        seconds.rest();
        seconds.finish(answer, delivery.failed());
        synchronized (latency) {
            answer.set("latency", latency.json());
        }
        answer.set("pacing", pacing.json());
    }

    private static void record(Distribution latency, long due) {
        long now = Usage.now();
        synchronized (latency) {
            latency.recordNanos(now - due);
        }
    }

    static void consume(Settings settings, Command command, ObjectNode answer) {
        TopicPartition partition = new TopicPartition(command.text("topic"), 0);
        try (KafkaConsumer<byte[], byte[]> consumer = settings.consumer(false)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            Seconds seconds = new Seconds(command);
            for (long now = seconds.begin; seconds.left(now) > 0; now = Usage.now()) {
                seconds.tick(now);
                Duration timeout = Duration.ofNanos(Math.min(POLL.toNanos(), seconds.left(now)));
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(timeout)) {
                    if (Values.number(record.key()) == Values.PRIMER) continue;
                    seconds.count(Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize()));
                }
            }
            seconds.finish(answer, 0);
        }
    }
}
