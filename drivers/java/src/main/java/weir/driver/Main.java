package weir.driver;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Driver of the official Kafka client for Java. It executes one JSON command per line of standard
 * input and writes one response per line to standard output. The protocol is in docs/drivers.md.
 */
final class Main {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> CAPABILITIES = List.of("produce.cold", "produce.metadata", "produce.warm",
        "consume.group", "consume.assign", "copy.group", "copy.assign", "roundtrip.burst", "roundtrip.open",
        "steady.produce", "steady.consume");
    /** The output for protocol lines; other output goes to standard error. */
    private static final PrintStream LINES = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Settings settings;
    private Producing producing;

    public static void main(String[] args) throws InterruptedException {
        System.setOut(System.err);
        BlockingQueue<Optional<String>> lines = new LinkedBlockingQueue<>(64);
        CountDownLatch idle = new CountDownLatch(1);
        Thread reader = new Thread(() -> read(lines, idle), "commands");
        reader.setDaemon(true);
        reader.start();
        Main driver = new Main();
        for (Optional<String> line = lines.take(); line.isPresent(); line = lines.take()) {
            if (!driver.obey(line.get())) break;
        }
        idle.countDown();
        // The library's threads would keep the process alive.
        System.exit(0);
    }

    /** Queues every line. After the end of the input the process exits within 1.5 s. */
    private static void read(BlockingQueue<Optional<String>> lines, CountDownLatch idle) {
        try {
            BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = input.readLine(); line != null; line = input.readLine()) lines.put(Optional.of(line));
        } catch (IOException e) {
            System.err.println("standard input: " + e);
        } catch (InterruptedException e) {
            return;
        }
        try {
            if (lines.offer(Optional.empty(), 1, TimeUnit.SECONDS)) idle.await(1500, TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            // The process then exits at once.
        }
        Runtime.getRuntime().halt(0);
    }

    /** Responds to one command. Returns false after the last one. */
    private boolean obey(String line) {
        if (line.isBlank()) return true;
        ObjectNode answer = JSON.createObjectNode();
        answer.putNull("id");
        String op = "";
        try {
            JsonNode command = JSON.readTree(line);
            if (!command.isObject()) throw new IllegalArgumentException("a command is an object");
            answer.set("id", command.get("id"));
            op = command.path("op").asText();
            answer.put("ok", true);
            run(op, new Command(command), answer);
        } catch (JsonProcessingException e) {
            refuse(answer, "no JSON: " + e.getOriginalMessage());
        } catch (Exception | OutOfMemoryError e) {
            refuse(answer, reason(e));
        }
        say(answer);
        return !op.equals("bye");
    }

    private static void refuse(ObjectNode answer, String why) {
        JsonNode id = answer.get("id");
        answer.removeAll();
        answer.set("id", id);
        answer.put("ok", false);
        answer.put("error", why);
    }

    /**
     * Returns one sentence for an exception; messages of the driver's own exceptions are complete.
     */
    static String reason(Throwable e) {
        // The cause of "Failed to construct" says what is wrong.
        if (e instanceof KafkaException && e.getCause() instanceof KafkaException) return reason(e.getCause());
        String message = e.getMessage() == null ? "" : e.getMessage().lines().findFirst().orElse("");
        if (e instanceof IllegalArgumentException || e instanceof IllegalStateException) return message;
        return e.getClass().getSimpleName() + (message.isEmpty() ? "" : ": " + message);
    }

    /** Writes one line. */
    static void say(ObjectNode line) {
        synchronized (LINES) {
            LINES.println(line);
            LINES.flush();
        }
    }

    private void run(String op, Command command, ObjectNode answer) throws Exception {
        switch (op) {
            case "hello" -> hello(command, answer);
            case "configure" -> configure(command, answer);
            case "warmup" -> {
                producing().warmUp(command, answer);
                Consuming.warmUp(settings, command, answer);
            }
            case "produce" -> producing().produce(command, answer);
            case "consume" -> new Consuming(configured(), command).run(answer);
            case "copy" -> new Copying(configured(), producing(), command).run(answer);
            case "roundtrip" -> new Roundtrip(configured(), command).run(answer);
            case "steady" -> {
                if (command.text("role").equals("produce")) Steady.produce(producing(), command, answer);
                else Steady.consume(configured(), command, answer);
            }
            case "gc" -> System.gc();
            case "stats" -> Usage.stats(answer);
            case "bye" -> close();
            default -> throw new IllegalArgumentException("unknown op \"" + op + "\"");
        }
    }

    private static void hello(Command command, ObjectNode answer) {
        if (command.number("protocol") != 1) throw new IllegalArgumentException("this driver speaks protocol 1");
        answer.put("protocol", 1);
        answer.put("library", "kafka-clients");
        answer.put("library_version", AppInfoParser.getVersion());
        answer.put("binding", "");
        answer.put("runtime", Usage.runtime());
        answer.set("capabilities", JSON.valueToTree(CAPABILITIES));
    }

    private void configure(Command command, ObjectNode answer) throws IOException {
        close();
        String file = command.optional("client_file");
        Map<String, Object> client = file == null ? Map.of() : ClientFile.read(Path.of(file));
        settings = new Settings(command.text("bootstrap"), client, command.get("settings"));
        producing = new Producing(settings);
        settings.echo(answer);
        answer.put("client_file", file != null);
    }

    private Settings configured() {
        if (settings == null) throw new IllegalStateException("configure comes first");
        return settings;
    }

    private Producing producing() {
        configured();
        return producing;
    }

    private void close() {
        if (producing != null) producing.close();
    }
}
