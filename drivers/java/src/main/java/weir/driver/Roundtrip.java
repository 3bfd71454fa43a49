package weir.driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** A producer and a consumer of the same topic in one process. The consumer has its own thread. */
final class Roundtrip {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration CLOSE = Duration.ofSeconds(2);

    private final Settings settings;
    private final Command command;
    private final String topic;
    private final int count;
    private final double rate;
    private final byte[] value;
    private final Delivery delivery;
    private final Distribution latency = new Distribution();
    private final Distribution pacing = new Distribution();
    private final CountDownLatch primed = new CountDownLatch(1);
    private final CountDownLatch received = new CountDownLatch(1);
    private volatile boolean stopped;
    private volatile Throwable error;
    /** Written by the consumer; others read them after `received`. */
    private int got;
    private long r1;
    private long cpuAtLast;

    Roundtrip(Settings settings, Command command) {
        this.settings = settings;
        this.command = command;
        topic = command.text("topic");
        count = command.number("count");
        rate = command.rate();
        value = Values.make(command.number("len"), command.seed());
        delivery = new Delivery(count);
    }

    void run(ObjectNode answer) throws Exception {
        Thread reader = new Thread(this::read, "reader");
        KafkaProducer<byte[], byte[]> producer = settings.producer(command.left());
        try {
            reader.start();
            Producing.prime(producer, topic, command);
            await(primed, "the consumer did not get the primer in time");
            long cpu = Usage.cpuNanos();
            long t0 = Usage.now();
            if (rate > 0) Pacer.run(t0, rate, count, pacing, due -> send(producer, due));
            else for (int i = 0; i < count; i++) send(producer, Usage.now());
            long t1 = Usage.now();
            producer.flush();
            delivery.await(command);
            await(received, "not all records came back in time");
            answer.putObject("marks").put("t0", t0).put("t1", t1)
                .put("t2", Math.max(t0, delivery.last())).put("r1", Math.max(t0, r1));
            long cpuAtEnd = r1 > delivery.last() ? cpuAtLast : delivery.cpuAtLast();
            answer.put("cpu_us", Math.max(0, (cpuAtEnd - cpu) / 1000));
            delivery.echo(answer);
            answer.put("got", got).set("latency", latency.json());
            answer.set("pacing", pacing.json());
        } finally {
            stopped = true;
            producer.close(command.late() ? Duration.ZERO : CLOSE);
            reader.join();
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, long instant) {
        producer.send(new ProducerRecord<>(topic, 0, Values.key(instant), value), delivery);
        if (delivery.hasFailures() && command.late()) throw new IllegalStateException(delivery.unfinished());
    }

    private void await(CountDownLatch latch, String late) throws InterruptedException {
        boolean came = latch.await(command.left().toNanos(), TimeUnit.NANOSECONDS);
        if (error != null) throw new IllegalStateException("the consumer failed: " + Main.reason(error));
        if (!came) throw new IllegalStateException(late);
    }

    private void read() {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = settings.consumer(false)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            if (count == 0) finish();
            while (!stopped && (got < count || primed.getCount() > 0)) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) take(Values.number(record.key()));
            }
        } catch (Throwable e) {
            error = e;
            primed.countDown();
            received.countDown();
        }
    }

    private void take(long key) {
        if (key == Values.PRIMER) {
            primed.countDown();
            return;
        }
        latency.recordNanos(Usage.now() - key);
        if (++got == count) finish();
    }

    private void finish() {
        r1 = Usage.now();
        cpuAtLast = Usage.cpuNanos();
        received.countDown();
    }
}
