using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using MASES.KNet;

namespace Weir.Driver;

/// <summary>The Java VM in this process, with the flags of the driver `java`.</summary>
internal sealed class Core : KNetCore<Core>
{
    private const string Heap = "4g";
    private const string NoPerfData = "-XX:-UsePerfData";

    public static string JavaFlags => $"-Xms{Heap} -Xmx{Heap} {NoPerfData}";

    /// <summary>Version of KNet.</summary>
    public static string KNetVersion => typeof(KNetCore<>).Assembly.GetName().Version?.ToString() ?? "unknown";

    /// <summary>Version of the Java client in KNet's package, from the name of its file.</summary>
    public static string ClientVersion { get; private set; } = "unknown";

    /// <summary>Number of calls into the VM so far.</summary>
    public static long JniCalls => GlobalInstance.CallCount;

    private long CallCount => JVMStats.TotalJNICalls;

    /// <summary>Starts the VM of JCOBRIDGE_JVMPath or JAVA_HOME, once per process.</summary>
    public static void StartVm()
    {
        ApplicationHeapSize = Heap;
        ApplicationInitialHeapSize = Heap;
        AddJVMOption(NoPerfData, null);
        // Warnings to standard error; the default has an appender for standard output.
        string[] configurations = { "tools-log4j2.yaml", "tools-log4j.properties" };
        string? configuration = configurations.Select(name => Path.Combine(Const.DefaultConfigurationPath, name)).FirstOrDefault(File.Exists);
        if (configuration != null) ApplicationLog4JPath = configuration;
        const string Prefix = "kafka-clients-";
        string? jar = Directory.EnumerateFiles(Const.DefaultJarsPath, Prefix + "*.jar").FirstOrDefault();
        if (jar != null) ClientVersion = Path.GetFileNameWithoutExtension(jar).Substring(Prefix.Length);
        CreateGlobalInstance();
    }

    /// <summary>None: KNet would choose a garbage collector and its pauses.</summary>
    protected override IList<string> PerformanceOptions => new List<string>();

    /// <summary>Without remote management, which opens a port.</summary>
    protected override IDictionary<string, string> Options
    {
        get
        {
            var kept = new Dictionary<string, string>();
            foreach (KeyValuePair<string, string> option in base.Options)
            {
                if (!option.Key.Contains("jmxremote")) kept[option.Key] = option.Value;
            }
            return kept;
        }
    }
}
