package weir.driver;

import java.util.concurrent.locks.LockSupport;
import java.util.function.LongConsumer;

/** Calls at absolute times: a late call is made at once, and no call is skipped. */
final class Pacer {
    private Pacer() {}

    /** Call i is due at `begin` + i / rate; `pacing` records the delay of each. */
    static void run(long begin, double rate, long count, Distribution pacing, LongConsumer call) {
        for (long i = 0; i < count; i++) {
            long due = begin + (long) (i * 1e9 / rate);
            long now = Usage.now();
            while (now < due) {
                LockSupport.parkNanos(due - now);
                now = Usage.now();
            }
            pacing.recordNanos(now - due);
            call.accept(due);
        }
    }
}
