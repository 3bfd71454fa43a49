package weir.driver;

import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.jna.Native;
import com.sun.jna.Platform;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;

/** Clock, CPU time and memory of this process. */
final class Usage {
    private static final int CLOCK_PROCESS_CPUTIME_ID = Platform.isMac() ? 12 : 2;
    private static final long START = System.nanoTime();

    static {
        Native.register(Platform.C_LIBRARY_NAME);
    }

    private Usage() {}

    private static native int clock_gettime(int clock, long[] time);

    /** Nanoseconds since the start of the program. */
    static long now() {
        return System.nanoTime() - START;
    }

    /** CPU time of all threads of the process, including the virtual machine's, in nanoseconds. */
    static long cpuNanos() {
        long[] time = new long[2];
        if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, time) != 0) throw new IllegalStateException("no processor clock");
        return time[0] * 1_000_000_000 + time[1];
    }

    static String runtime() {
        String collectors = ManagementFactory.getGarbageCollectorMXBeans().stream()
            .map(GarbageCollectorMXBean::getName).collect(Collectors.joining(", "));
        String flags = String.join(" ", ManagementFactory.getRuntimeMXBean().getInputArguments());
        return "Java " + System.getProperty("java.version") + " (" + System.getProperty("java.vm.name") + "), collectors "
            + collectors + ", flags " + (flags.isEmpty() ? "none" : flags);
    }

    static void stats(ObjectNode answer) throws IOException {
        answer.put("rss_kb", status("VmRSS:"));
        answer.put("threads", status("Threads:"));
        answer.put("heap_kb", ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed() / 1024);
    }

    /** Returns the number after this word in the kernel's status of the process. */
    private static Long status(String word) throws IOException {
        Path file = Path.of("/proc/self/status");
        if (!Files.isReadable(file)) return null;
        return Files.readAllLines(file).stream().filter(line -> line.startsWith(word))
            .map(line -> Long.valueOf(line.replaceAll("[^0-9]", ""))).findFirst().orElse(null);
    }
}
