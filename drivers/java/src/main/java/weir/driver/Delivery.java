package weir.driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Counts the delivery reports of one command. A failure may be reported in the sending thread,
 * hence the atomics.
 */
final class Delivery implements Callback {
    private static final int ERRORS = 5;

    private final AtomicLong missing;
    private final AtomicLong failed = new AtomicLong();
    private final Set<String> errors = new LinkedHashSet<>();
    private final long expected;
    private final CountDownLatch done = new CountDownLatch(1);
    private volatile long last;
    private volatile long cpuAtLast;

    Delivery(long expected) {
        this.expected = expected;
        missing = new AtomicLong(expected);
        if (expected == 0) finish();
    }

    @Override public void onCompletion(RecordMetadata metadata, Exception error) {
        if (error != null) fail(error);
        if (missing.decrementAndGet() == 0) finish();
    }

    private void finish() {
        last = Usage.now();
        cpuAtLast = Usage.cpuNanos();
        done.countDown();
    }

    private void fail(Exception error) {
        failed.incrementAndGet();
        synchronized (errors) {
            if (errors.size() < ERRORS) errors.add(Main.reason(error));
        }
    }

    boolean hasFailures() {
        return failed.get() > 0;
    }

    /** Waits for the last report. */
    void await(Command command) throws InterruptedException {
        if (!done.await(command.left().toNanos(), TimeUnit.NANOSECONDS)) throw new IllegalStateException(unfinished());
    }

    /** The error text after the deadline. */
    String unfinished() {
        String why;
        synchronized (errors) {
            why = errors.isEmpty() ? "" : ": " + errors.iterator().next();
        }
        return "only " + (expected - missing.get()) + " of " + expected + " delivery reports came in time" + why;
    }

    /** The time of the last report. */
    long last() {
        return last;
    }

    /** CPU time of the process at that time. */
    long cpuAtLast() {
        return cpuAtLast;
    }

    long failed() {
        return failed.get();
    }

    void echo(ObjectNode answer) {
        answer.put("acked", expected - missing.get() - failed.get());
        answer.put("failed", failed.get());
        synchronized (errors) {
            answer.set("errors", Main.JSON.valueToTree(errors));
        }
    }
}
