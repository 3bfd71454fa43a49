using System;
using System.IO;
using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace Weir.Driver;

/// <summary>Driver of KNet: its own producer, or with the argument "raw" the class of the Java client.</summary>
internal static class Entry
{
    private const int StandardOutput = 1;
    private const int StandardError = 2;

    [DllImport("libc", EntryPoint = "dup")]
    private static extern int Duplicate(int descriptor);

    [DllImport("libc", EntryPoint = "dup2")]
    private static extern int Duplicate(int from, int to);

    private static int Main(string[] args)
    {
        bool raw = args.Length == 1 && args[0] == "raw";
        if (args.Length > 0 && !raw)
        {
            Console.Error.WriteLine("usage: driver [raw]");
            return 2;
        }
        return Program.Run(Output(), () => new KNetLibrary(raw));
    }

    /// <summary>
    /// Returns the standard output for protocol lines. Output of the Java VM, which writes to the
    /// file descriptor, goes to standard error.
    /// </summary>
    private static Stream Output()
    {
        if (OperatingSystem.IsWindows()) return Console.OpenStandardOutput();
        int kept = Duplicate(StandardOutput);
        if (kept < 0 || Duplicate(StandardError, StandardOutput) < 0) throw new IOException("standard output cannot be duplicated");
        return new FileStream(new SafeFileHandle(new IntPtr(kept), true), FileAccess.Write, 0);
    }
}
