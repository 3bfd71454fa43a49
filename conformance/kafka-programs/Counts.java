import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application with exactly-once processing: counts values by their first two letters
 * and writes every count.
 *
 * <p>Counts BOOTSTRAP INPUT OUTPUT APPLICATION_ID STATE_DIR PROTOCOL
 *
 * <p>The protocol is "classic" or "streams". The values pass a repartition topic, the counts a
 * changelog topic. Ends with exit code 1 after an error, and with 0 at the end of standard input.
 */
public final class Counts {
    public static void main(String[] args) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[3]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, args[5]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 5_000);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        if (args[5].equals("classic")) {
            config.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6_000);
        }

        var store = Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
            .withKeySerde(Serdes.String())
            .withValueSerde(Serdes.Long());
        var builder = new StreamsBuilder();
        builder.stream(args[1], Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, value) -> value.substring(0, 2))
            .groupByKey(Grouped.with("by-letters", Serdes.String(), Serdes.String()))
            .count(store)
            .toStream()
            .mapValues((letters, count) -> letters + ":" + count)
            .to(args[2], Produced.with(Serdes.String(), Serdes.String()));

        var streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.setStateListener((now, before) -> System.out.println(java.time.Instant.now() + " " + now));
        streams.start();
        while (System.in.read() >= 0) {
            // Until standard input ends.
        }
        streams.close();
    }
}
