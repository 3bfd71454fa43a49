package weir.driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Bursts of records, and the producer that is reused. */
final class Producing {
    private static final Duration CLOSE = Duration.ofSeconds(5);

    private final Settings settings;
    private KafkaProducer<byte[], byte[]> kept;
    /** Topics to which the reused producer has delivered a primer. */
    private final Set<String> primed = new HashSet<>();

    Producing(Settings settings) {
        this.settings = settings;
    }

    void produce(Command command, ObjectNode answer) throws Exception {
        Burst burst = new Burst(command, command.flag("per_record"));
        String state = command.text("state");
        switch (state) {
            case "cold" -> inNewProducer(burst, false);
            case "metadata" -> inNewProducer(burst, true);
            case "warm" -> inKeptProducer(burst);
            default -> throw new IllegalArgumentException("unknown state \"" + state + "\"");
        }
        burst.echo(answer);
    }

    void warmUp(Command command, ObjectNode answer) throws Exception {
        Burst burst = new Burst(command, false);
        inKeptProducer(burst);
        answer.put("produce_cpu_us_per_record", burst.cpuNanos() / 1e3 / Math.max(1, burst.count));
        if (burst.delivery.hasFailures()) throw new IllegalStateException("records of the warm-up failed");
    }

    private void inNewProducer(Burst burst, boolean askFirst) throws Exception {
        KafkaProducer<byte[], byte[]> producer = null;
        try {
            if (!askFirst) burst.start();
            producer = settings.producer(burst.command.left());
            if (askFirst) {
                producer.partitionsFor(burst.topic);
                burst.start();
            }
            burst.send(producer);
        } finally {
            if (producer != null) producer.close(burst.command.late() ? Duration.ZERO : CLOSE);
        }
    }

    private void inKeptProducer(Burst burst) throws Exception {
        KafkaProducer<byte[], byte[]> producer = warm(burst.topic, burst.command);
        try {
            burst.start();
            burst.send(producer);
        } catch (Exception e) {
            discard();
            throw e;
        }
    }

    /** Returns the reused producer, which has delivered a primer to the topic. */
    KafkaProducer<byte[], byte[]> warm(String topic, Command command) throws Exception {
        if (kept == null) kept = settings.producer(command.left());
        try {
            if (!primed.contains(topic)) prime(kept, topic, command);
            primed.add(topic);
        } catch (Exception e) {
            discard();
            throw e;
        }
        return kept;
    }

    /**
     * Sends in another thread, which ends when the producer is closed: loading metadata may take
     * its maximum time.
     */
    static void prime(KafkaProducer<byte[], byte[]> producer, String topic, Command command) throws Exception {
        ProducerRecord<byte[], byte[]> primer = new ProducerRecord<>(topic, 0, Values.key(Values.PRIMER), Values.PRIMER_VALUE);
        FutureTask<?> sent = new FutureTask<>(() -> {
            Future<?> delivered = producer.send(primer);
            producer.flush();
            return delivered.get();
        });
        Thread sender = new Thread(sent, "primer");
        sender.setDaemon(true);
        sender.start();
        try {
            sent.get(command.left().toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new IllegalStateException("the primer was not delivered in time");
        } catch (ExecutionException e) {
            Throwable cause = e.getCause() instanceof ExecutionException inner ? inner.getCause() : e.getCause();
            throw new IllegalStateException("the primer was not delivered: " + Main.reason(cause));
        }
    }

    /** Discards the reused producer with its queued records. */
    void discard() {
        close(Duration.ZERO);
    }

    void close() {
        close(Duration.ofSeconds(1));
    }

    private void close(Duration timeout) {
        if (kept != null) kept.close(timeout);
        kept = null;
        primed.clear();
    }

    /** A burst: its records and measurements. */
    private static final class Burst {
        final Command command;
        final String topic;
        final int count;
        final Delivery delivery;
        private final boolean perRecord;
        private final byte[] value;
        private final byte[][] keys;
        private long t0;
        private long t1;
        private long cpuAtStart;
        private long create;
        private long send;

        Burst(Command command, boolean perRecord) {
            this.command = command;
            this.perRecord = perRecord;
            topic = command.text("topic");
            count = command.number("count");
            value = Values.make(command.number("len"), command.seed());
            keys = Values.keys(count);
            delivery = new Delivery(count);
        }

        void start() {
            cpuAtStart = Usage.cpuNanos();
            t0 = Usage.now();
        }

        void send(KafkaProducer<byte[], byte[]> producer) throws InterruptedException {
            if (perRecord) sendTimed(producer);
            else sendAll(producer);
            t1 = Usage.now();
            producer.flush();
            delivery.await(command);
        }

        private void sendAll(KafkaProducer<byte[], byte[]> producer) {
            for (byte[] key : keys) {
                producer.send(new ProducerRecord<>(topic, 0, key, value), delivery);
                giveUpInTime();
            }
        }

        private void sendTimed(KafkaProducer<byte[], byte[]> producer) {
            for (byte[] key : keys) {
                long begin = System.nanoTime();
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, key, value);
                long made = System.nanoTime();
                producer.send(record, delivery);
                send += System.nanoTime() - made;
                create += made - begin;
                giveUpInTime();
            }
        }

        /**
         * Stops after the deadline: a failed send may have blocked for its maximum time, and the
         * next would, too.
         */
        private void giveUpInTime() {
            if (delivery.hasFailures() && command.late()) throw new IllegalStateException(delivery.unfinished());
        }

        long cpuNanos() {
            return delivery.cpuAtLast() - cpuAtStart;
        }

        void echo(ObjectNode answer) {
            answer.putObject("marks").put("t0", t0).put("t1", t1).put("t2", Math.max(t0, delivery.last()));
            answer.put("cpu_us", Math.max(0, cpuNanos() / 1000));
            delivery.echo(answer);
            if (perRecord) answer.put("create_us", create / 1000).put("send_us", send / 1000);
        }
    }
}
