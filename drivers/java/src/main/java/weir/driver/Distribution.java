package weir.driver;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * A distribution of microseconds: exact below 1,000, three significant decimal digits above. Not
 * safe for threads.
 */
final class Distribution {
    /** Thirteen decades above 1,000 us cover all nanoseconds of a long. */
    private final long[] counts = new long[1000 + 900 * 13];
    private long count;
    private long sum;
    private long least = Long.MAX_VALUE;
    private long most;

    void recordNanos(long nanos) {
        long value = Math.max(0, nanos / 1000);
        counts[place(value)]++;
        count++;
        sum += value;
        least = Math.min(least, value);
        most = Math.max(most, value);
    }

    long count() {
        return count;
    }

    /** Half a unit rounds up; 9,995 is the first of the next decade. */
    private static int place(long value) {
        if (value < 1000) return (int) value;
        long unit = 1;
        int first = 1000;
        while (value / unit >= 1000) {
            unit *= 10;
            first += 900;
        }
        return (int) (first - 900 + (value + unit / 2) / unit - 100);
    }

    private static long value(int place) {
        if (place < 1000) return place;
        long value = 100 + (place - 1000) % 900;
        for (int decade = (place - 1000) / 900; decade >= 0; decade--) value *= 10;
        return value;
    }

    ObjectNode json() {
        ObjectNode json = Main.JSON.createObjectNode();
        ArrayNode pairs = Main.JSON.createArrayNode();
        for (int place = 0; place < counts.length; place++) {
            if (counts[place] > 0) pairs.addArray().add(value(place)).add(counts[place]);
        }
        json.put("count", count).put("sum_us", sum).put("min_us", count == 0 ? 0 : least).put("max_us", most);
        json.set("pairs", pairs);
        return json;
    }
}
