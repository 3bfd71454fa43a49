using System;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;

namespace Weir.Driver;

/// <summary>A time and the CPU time of the process, in nanoseconds.</summary>
internal readonly record struct Mark(long At, long Cpu)
{
    /// <summary>Start mark: the clock is read last.</summary>
    public static Mark Begin()
    {
        long cpu = Usage.CpuNanos();
        return new Mark(Usage.Now(), cpu);
    }

    /// <summary>End mark: the clock is read first.</summary>
    public static Mark End()
    {
        long at = Usage.Now();
        return new Mark(at, Usage.CpuNanos());
    }

    public long CpuMicrosSince(Mark begin) => Math.Max(0, (Cpu - begin.Cpu) / 1000);
}

/// <summary>Resource usage of this process.</summary>
internal static class Usage
{
    private const int ClockProcessCpuTime = 2;
    private static readonly long Start = Stopwatch.GetTimestamp();

    [StructLayout(LayoutKind.Sequential)]
    private struct TimeSpec
    {
        public long Seconds;
        public long Nanoseconds;
    }

    [DllImport("libc", EntryPoint = "clock_gettime")]
    private static extern int ClockGetTime(int clock, out TimeSpec time);

    /// <summary>Nanoseconds since the start of the program.</summary>
    public static long Now() => (long)((Stopwatch.GetTimestamp() - Start) * (1e9 / Stopwatch.Frequency));

    /// <summary>
    /// CPU time of all threads; the framework's value has steps of 10 ms on Linux.
    /// </summary>
    public static long CpuNanos()
    {
        if (OperatingSystem.IsLinux() && ClockGetTime(ClockProcessCpuTime, out TimeSpec time) == 0)
        {
            return time.Seconds * 1_000_000_000 + time.Nanoseconds;
        }
        using var process = Process.GetCurrentProcess();
        return process.TotalProcessorTime.Ticks * 100;
    }

    public static JsonObject Stats() => new()
    {
        ["rss_kb"] = Status("VmRSS:"),
        ["threads"] = Status("Threads:"),
        ["heap_kb"] = GC.GetTotalMemory(false) / 1024,
    };

    private static long? Status(string word)
    {
        if (!File.Exists("/proc/self/status")) return null;
        string? line = File.ReadLines("/proc/self/status").FirstOrDefault(line => line.StartsWith(word));
        return line == null ? null : long.Parse(new string(line.Where(char.IsAsciiDigit).ToArray()));
    }
}
