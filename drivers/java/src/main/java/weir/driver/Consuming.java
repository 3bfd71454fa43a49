package weir.driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A reading of a topic from its start. */
final class Consuming {
    /** What happens to the records that are read, before the consumer is closed. */
    interface Sink {
        void accept(ConsumerRecord<byte[], byte[]> record);

        void finish() throws Exception;
    }

    private static final Duration POLL = Duration.ofMillis(500);

    private final Settings settings;
    private final Command command;
    private final TopicPartition partition;
    private final int length;
    private final int count;
    private final boolean viaGroup;
    private final boolean commit;
    /** The expected value, if values are compared. */
    private final byte[] value;
    /** Null if the records are only read. */
    private final Sink sink;
    private long s0;
    private volatile long s1;
    private long s2;
    private long s3;
    private long s4;
    private long cpuAtStart;
    private long cpuAtFirst;
    private long cpuAtLast;
    private int got;
    private long bytes;
    private long bad;

    Consuming(Settings settings, Command command) {
        this(settings, command, command.text("via"), command.flag("verify"), command.flag("commit"), null);
    }

    Consuming(Settings settings, Command command, Sink sink) {
        this(settings, command, command.text("via"), false, false, sink);
    }

    private Consuming(Settings settings, Command command, String via, boolean verify, boolean commit, Sink sink) {
        if (!via.equals("group") && !via.equals("assign")) throw new IllegalArgumentException("unknown via \"" + via + "\"");
        this.settings = settings;
        this.command = command;
        this.commit = commit;
        this.sink = sink;
        viaGroup = via.equals("group");
        partition = new TopicPartition(command.text("topic"), 0);
        length = command.number("len");
        count = command.number("count");
        value = verify ? Values.make(length, command.seed()) : null;
    }

    static void warmUp(Settings settings, Command command, ObjectNode answer) throws Exception {
        Consuming reading = new Consuming(settings, command, "assign", false, false, null);
        reading.read();
        answer.put("consume_cpu_us_per_record", (reading.cpuAtLast - reading.cpuAtStart) / 1e3 / Math.max(1, reading.count));
    }

    void run(ObjectNode answer) throws Exception {
        read();
        ObjectNode marks = answer.putObject("marks");
        marks.put("s0", s0).put("s1", s1).put("s2", s2).put("s3", s3);
        if (commit) marks.put("s4", s4);
        answer.put("cpu_us", (cpuAtLast - cpuAtStart) / 1000).put("drain_cpu_us", (cpuAtLast - cpuAtFirst) / 1000);
        answer.put("got", got).put("bytes", bytes).put("bad", bad);
    }

    /** Describes a copy whose last record was sent at `t1`. */
    void echoCopy(Delivery delivery, long t1, ObjectNode answer) {
        ObjectNode marks = answer.putObject("marks");
        marks.put("s0", s0).put("s1", s1).put("s2", s2).put("t1", t1).put("t2", Math.max(s2, delivery.last()));
        long cpuAtEnd = delivery.cpuAtLast();
        answer.put("cpu_us", Math.max(0, (cpuAtEnd - cpuAtStart) / 1000));
        answer.put("copy_cpu_us", Math.max(0, (cpuAtEnd - cpuAtFirst) / 1000));
        answer.put("got", got).put("bytes", bytes).put("bad", bad);
        delivery.echo(answer);
    }

    void read() throws Exception {
        KafkaConsumer<byte[], byte[]> consumer = viaGroup ? settings.groupConsumer() : settings.consumer(commit);
        try (consumer) {
            cpuAtStart = Usage.cpuNanos();
            s0 = Usage.now();
            begin(consumer);
            while (got < count) take(consumer.poll(Duration.ofNanos(Math.min(POLL.toNanos(), left()))));
            if (sink != null) sink.finish();
            if (commit) {
                consumer.commitSync(command.left());
                s4 = Usage.now();
            }
        }
    }

    private long left() {
        if (command.late()) throw new IllegalStateException("only " + got + " of " + count + " records came in time");
        return command.left().toNanos();
    }

    private void begin(KafkaConsumer<byte[], byte[]> consumer) {
        if (!viaGroup) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            s1 = Usage.now();
            return;
        }
        consumer.subscribe(List.of(partition.topic()), new ConsumerRebalanceListener() {
            @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                if (s1 == 0) s1 = Usage.now();
            }

            @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}
        });
    }

    private void take(ConsumerRecords<byte[], byte[]> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            long key = Values.number(record.key());
            if (key == Values.PRIMER) continue;
            if (got == 0) {
                s2 = Usage.now();
                cpuAtFirst = Usage.cpuNanos();
            }
            check(key, record);
            if (sink != null) sink.accept(record);
            if (++got == count) {
                s3 = Usage.now();
                cpuAtLast = Usage.cpuNanos();
                return;
            }
        }
    }

    private void check(long key, ConsumerRecord<byte[], byte[]> record) {
        byte[] read = record.value();
        int size = read == null ? 0 : read.length;
        boolean right = key == got && size == length && (value == null || Arrays.equals(value, read));
        if (!right) bad++;
        bytes += (record.key() == null ? 0 : record.key().length) + size;
    }
}
