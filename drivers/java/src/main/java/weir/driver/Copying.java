package weir.driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A copy of a topic: each record that is read is sent to another topic, by the reused producer. */
final class Copying implements Consuming.Sink {
    private final Command command;
    private final String to;
    private final Producing producing;
    private final Delivery delivery;
    private final Consuming reading;
    private KafkaProducer<byte[], byte[]> producer;
    private long t1;

    Copying(Settings settings, Producing producing, Command command) {
        this.command = command;
        this.producing = producing;
        to = command.text("to");
        delivery = new Delivery(command.number("count"));
        reading = new Consuming(settings, command, this);
    }

    void run(ObjectNode answer) throws Exception {
        producer = producing.warm(to, command);
        try {
            reading.read();
        } catch (Exception e) {
            producing.discard();
            throw e;
        }
        reading.echoCopy(delivery, t1, answer);
    }

    @Override public void accept(ConsumerRecord<byte[], byte[]> record) {
        producer.send(new ProducerRecord<>(to, 0, record.key(), record.value()), delivery);
        if (delivery.hasFailures() && command.late()) throw new IllegalStateException(delivery.unfinished());
    }

    @Override public void finish() throws InterruptedException {
        t1 = Usage.now();
        producer.flush();
        delivery.await(command);
    }
}
