package weir.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;

/** A command: its fields by name, and its deadline. */
final class Command {
    private final JsonNode fields;
    /**
     * Four fifths of `timeout_ms` after its receipt, because an error is better than being killed.
     */
    private final long deadline;

    Command(JsonNode fields) {
        this.fields = fields;
        deadline = System.nanoTime() + fields.path("timeout_ms").asLong(60_000) * 800_000;
    }

    JsonNode get(String name) {
        JsonNode field = fields.get(name);
        if (field == null || field.isNull()) throw new IllegalArgumentException("the command lacks \"" + name + "\"");
        return field;
    }

    String text(String name) {
        return get(name).asText();
    }

    /** Returns a text, or null if the command lacks it. */
    String optional(String name) {
        return fields.hasNonNull(name) ? fields.get(name).asText() : null;
    }

    int number(String name) {
        JsonNode field = get(name);
        if (!field.isNumber() || field.asLong() < 0 || field.asLong() > Integer.MAX_VALUE) {
            throw new IllegalArgumentException("\"" + name + "\" is no number from 0 to " + Integer.MAX_VALUE);
        }
        return field.asInt();
    }

    double rate() {
        return get("rate").asDouble();
    }

    long seed() {
        return get("seed").asLong();
    }

    boolean flag(String name) {
        return fields.path(name).asBoolean(false);
    }

    Duration left() {
        return Duration.ofNanos(Math.max(0, deadline - System.nanoTime()));
    }

    boolean late() {
        return System.nanoTime() - deadline >= 0;
    }
}
