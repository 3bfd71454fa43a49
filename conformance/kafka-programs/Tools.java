import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools in one process, which saves the start of a JVM for each.
 *
 * <p>Each line of standard input is a class and its arguments, separated by tabs. For each, prints
 * the tool's output and a line with a form feed and the exit code.
 */
public final class Tools {
    /** The end of a tool. Not an exception, which tools catch. */
    private static final class Ended extends Error {
        final int code;

        Ended(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "off");
        Exit.setExitProcedure((code, message) -> {
            throw new Ended(code);
        });
        PrintStream out = System.out;
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            var bytes = new ByteArrayOutputStream();
            var captured = new PrintStream(bytes, true);
            System.setOut(captured);
            System.setErr(captured);
            int code = run(line.split("\t"));
            captured.flush();
            out.write(bytes.toByteArray());
            out.print("\f" + code + "\n");
            out.flush();
        }
    }

    private static int run(String[] words) throws Exception {
        var main = Class.forName(words[0]).getMethod("main", String[].class);
        try {
            main.invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            return 0;
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Ended ended) {
                return ended.code;
            }
            error.getCause().printStackTrace();
            return -1;
        }
    }
}
