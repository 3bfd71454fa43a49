import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;

/**
 * Lists the topics with each properties file that it is given, all at the same time, and prints for
 * each a line "connected" or "failed", followed by the causes and the JVM's log of the handshakes.
 */
public final class Connect {
    /** Output by the name of the client, which is part of the names of its threads. */
    private static final Map<String, ByteArrayOutputStream> LOGS = new ConcurrentHashMap<>();

    public static void main(String[] files) throws Exception {
        PrintStream standard = System.err;
        System.setErr(new PrintStream(new ByThread(), true, StandardCharsets.UTF_8));
        List<Thread> threads = new ArrayList<>();
        String[] results = new String[files.length];
        for (int at = 0; at < files.length; at++) {
            int number = at;
            String name = "case-" + at + ";";
            LOGS.put(name, new ByteArrayOutputStream());
            Thread thread = new Thread(() -> results[number] = list(files[number], name), name);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) thread.join();
        System.setErr(standard);
        for (int at = 0; at < files.length; at++) {
            String log = LOGS.get("case-" + at + ";").toString(StandardCharsets.UTF_8);
            System.out.println(MARK + results[at] + "\n" + log);
        }
        // Threads of a client that failed may remain.
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static String list(String file, String name) {
        Properties settings = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(file))) {
            settings.load(reader);
            settings.put("client.id", name);
            Admin admin = Admin.create(settings);
            try {
                admin.listTopics().names().get();
            } finally {
                admin.close(Duration.ZERO);
            }
            return "connected";
        } catch (Throwable failure) {
            failure.printStackTrace();
            return "failed";
        }
    }

    private static final String MARK = "===== ";

    /** Writes to the log of the client whose thread it is called in. */
    private static final class ByThread extends OutputStream {
        @Override
        public void write(int value) {
            write(new byte[] {(byte) value}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int length) {
            String thread = Thread.currentThread().getName();
            for (Map.Entry<String, ByteArrayOutputStream> log : LOGS.entrySet()) {
                if (thread.contains(log.getKey())) log.getValue().write(bytes, from, length);
            }
        }
    }
}
