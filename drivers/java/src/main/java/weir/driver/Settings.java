package weir.driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The settings of all clients created from now on. */
final class Settings {
    private static final long MAX_BLOCK_DEFAULT_MS = 60_000;

    /** A setting of the protocol and its name in the library. */
    private enum Known {
        acks(Side.PRODUCER, ProducerConfig.ACKS_CONFIG),
        linger_ms(Side.PRODUCER, ProducerConfig.LINGER_MS_CONFIG),
        batch_bytes(Side.PRODUCER, ProducerConfig.BATCH_SIZE_CONFIG),
        /** Batches are limited by bytes only. */
        batch_records(Side.NONE, null),
        max_in_flight(Side.PRODUCER, ProducerConfig.MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION),
        retries(Side.PRODUCER, ProducerConfig.RETRIES_CONFIG),
        idempotence(Side.PRODUCER, ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG),
        compression(Side.PRODUCER, ProducerConfig.COMPRESSION_TYPE_CONFIG),
        queue_bytes(Side.PRODUCER, ProducerConfig.BUFFER_MEMORY_CONFIG),
        /** The queue is limited by bytes only. */
        queue_records(Side.NONE, null),
        max_request_bytes(Side.PRODUCER, ProducerConfig.MAX_REQUEST_SIZE_CONFIG),
        send_buffer_bytes(Side.BOTH, ProducerConfig.SEND_BUFFER_CONFIG),
        receive_buffer_bytes(Side.BOTH, ProducerConfig.RECEIVE_BUFFER_CONFIG),
        fetch_min_bytes(Side.CONSUMER, ConsumerConfig.FETCH_MIN_BYTES_CONFIG),
        fetch_wait_ms(Side.CONSUMER, ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG),
        fetch_partition_bytes(Side.CONSUMER, ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG),
        check_crcs(Side.CONSUMER, ConsumerConfig.CHECK_CRCS_CONFIG),
        auto_commit(Side.GROUP, ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG),
        auto_commit_ms(Side.GROUP, ConsumerConfig.AUTO_COMMIT_INTERVAL_MS_CONFIG);

        final Side side;
        final String key;

        Known(Side side, String key) {
            this.side = side;
            this.key = key;
        }

        static Known named(String name) {
            return Arrays.stream(values()).filter(known -> known.name().equals(name)).findFirst().orElse(null);
        }

        boolean isBuffer() {
            return this == send_buffer_bytes || this == receive_buffer_bytes;
        }
    }

    private enum Side { PRODUCER, CONSUMER, BOTH, GROUP, NONE }

    private final JsonNode asked;
    private final Map<String, Object> producer = new HashMap<>();
    private final Map<String, Object> consumer = new HashMap<>();
    /** For consumers in a group only. */
    private final Map<String, Object> group = new HashMap<>();

    Settings(String bootstrap, Map<String, Object> client, JsonNode asked) {
        this.asked = asked;
        producer.putAll(client);
        consumer.putAll(client);
        producer.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        producer.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        producer.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        consumer.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        consumer.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        consumer.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        consumer.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
        group.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        for (Iterator<String> names = asked.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            Known known = Known.named(name);
            if (known != null && known.key != null) put(known, asked.get(name).asText());
        }
        // Creating a client validates the settings.
        producerConfig();
        consumerConfig();
    }

    private void put(Known known, String text) {
        // The library's value for the default of the operating system is -1.
        String value = known.isBuffer() && text.equals("0") ? "-1" : text;
        switch (known.side) {
            case PRODUCER -> producer.put(known.key, value);
            case CONSUMER -> consumer.put(known.key, value);
            case BOTH -> {
                producer.put(known.key, value);
                consumer.put(known.key, value);
            }
            case GROUP -> group.put(known.key, value);
            case NONE -> throw new IllegalStateException(known + " has a key and belongs to no client");
        }
    }

    /** Creates a producer that waits for metadata or queue space no longer than the timeout. */
    KafkaProducer<byte[], byte[]> producer(Duration timeout) {
        Map<String, Object> settings = new HashMap<>(producer);
        settings.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, Math.min(MAX_BLOCK_DEFAULT_MS, Math.max(1, timeout.toMillis())));
        return new KafkaProducer<>(settings);
    }

    KafkaConsumer<byte[], byte[]> groupConsumer() {
        Map<String, Object> settings = new HashMap<>(consumer);
        settings.putAll(group);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, "weir-" + UUID.randomUUID());
        return new KafkaConsumer<>(settings);
    }

    /**
     * Creates a consumer with an assigned partition; with `commits` it has a group and commits by
     * command.
     */
    KafkaConsumer<byte[], byte[]> consumer(boolean commits) {
        Map<String, Object> settings = new HashMap<>(consumer);
        if (commits) {
            settings.put(ConsumerConfig.GROUP_ID_CONFIG, "weir-" + UUID.randomUUID());
            settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        }
        return new KafkaConsumer<>(settings);
    }

    private ProducerConfig producerConfig() {
        return new ProducerConfig(producer);
    }

    private ConsumerConfig consumerConfig() {
        Map<String, Object> settings = new HashMap<>(consumer);
        settings.putAll(group);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, "weir");
        return new ConsumerConfig(settings);
    }

    /** Returns the effective settings, as the library parsed them. */
    void echo(ObjectNode answer) {
        ObjectNode effective = answer.putObject("effective");
        var unsupported = answer.putArray("unsupported");
        AbstractConfig ofProducer = producerConfig();
        AbstractConfig ofConsumer = consumerConfig();
        for (Known known : Known.values()) {
            if (known.key == null) continue;
            boolean ofProducers = known.side == Side.PRODUCER || known.side == Side.BOTH;
            effective.set(known.name(), json(known, (ofProducers ? ofProducer : ofConsumer).values().get(known.key)));
        }
        for (Iterator<String> names = asked.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            if (effective.has(name)) continue;
            unsupported.add(name);
            // No number of records closes a batch, as 0 requests.
            if (name.equals(Known.batch_records.name())) effective.put(name, 0);
            else effective.putNull(name);
        }
    }

    private static JsonNode json(Known known, Object value) {
        if (known == Known.acks) return Main.JSON.valueToTree("all".equals(value) ? -1 : Integer.valueOf(value.toString()));
        if (known.isBuffer() && Integer.valueOf(-1).equals(value)) return Main.JSON.valueToTree(0);
        return Main.JSON.valueToTree(value);
    }
}
