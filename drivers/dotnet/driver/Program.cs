using System;
using System.Collections.Concurrent;
using System.IO;
using System.Text;
using System.Text.Json;
using System.Text.Json.Nodes;
using System.Threading;

namespace Weir.Driver;

/// <summary>
/// Driver of a client library. It executes one JSON command per line of standard input and
/// writes one response per line to standard output. The protocol is in docs/drivers.md.
/// </summary>
internal static class Program
{
    private static readonly string[] Capabilities =
    {
        "produce.cold", "produce.metadata", "produce.warm", "consume.group", "consume.assign",
        "roundtrip.burst", "roundtrip.open", "steady.produce", "steady.consume",
    };

    private static TextWriter output = TextWriter.Null;
    private static ILibrary? library;
    private static Producing? producing;

    /// <summary>
    /// Executes commands until `bye` or the end of standard input. Protocol lines go to `lines`; what
    /// libraries print goes to standard error.
    /// </summary>
    public static int Run(Stream lines, Func<ILibrary> create)
    {
        output = TextWriter.Synchronized(new StreamWriter(lines, new UTF8Encoding(false)) { NewLine = "\n" });
        Console.SetOut(Console.Error);
        try
        {
            library = create();
        }
        catch (Exception e)
        {
            Exception cause = e;
            while (cause.InnerException != null) cause = cause.InnerException;
            Console.Error.WriteLine("the library does not start: " + Reason(cause));
            Environment.Exit(1);
        }
        Serve();
        // Threads of the libraries would keep the process alive.
        Environment.Exit(0);
        return 0;
    }

    private static void Serve()
    {
        var lines = new BlockingCollection<string>(64);
        var idle = new ManualResetEventSlim();
        new Thread(() => Read(lines, idle)) { IsBackground = true }.Start();
        foreach (string line in lines.GetConsumingEnumerable())
        {
            if (!Obey(line)) break;
        }
        idle.Set();
    }

    /// <summary>After the end of the input the process exits within 1.5 s.</summary>
    private static void Read(BlockingCollection<string> lines, ManualResetEventSlim idle)
    {
        using var input = new StreamReader(Console.OpenStandardInput());
        for (string? line = input.ReadLine(); line != null; line = input.ReadLine()) lines.Add(line);
        lines.CompleteAdding();
        idle.Wait(1500);
        Environment.Exit(0);
    }

    /// <summary>Responds to one command. Returns false after the last one.</summary>
    private static bool Obey(string line)
    {
        if (string.IsNullOrWhiteSpace(line)) return true;
        JsonNode? id = null;
        string op = "";
        JsonObject answer;
        try
        {
            if (JsonNode.Parse(line) is not JsonObject fields) throw new Refused("a command is an object");
            id = fields["id"]?.DeepClone();
            op = fields["op"]?.ToString() ?? "";
            answer = Run(op, new Command(fields));
            answer["ok"] = true;
        }
        catch (JsonException e)
        {
            answer = new JsonObject { ["ok"] = false, ["error"] = "no JSON: " + e.Message };
        }
        catch (Exception e)
        {
            answer = new JsonObject { ["ok"] = false, ["error"] = Reason(e) };
        }
        answer["id"] = id;
        Say(answer);
        return op != "bye";
    }

    /// <summary>
    /// Returns one sentence for an exception; messages of the driver's own exceptions are complete.
    /// </summary>
    public static string Reason(Exception e)
    {
        string text = e.Message.Split('\n')[0].Trim();
        return e is Refused ? text : e.GetType().Name + ": " + text;
    }

    public static void Say(JsonObject line)
    {
        output.WriteLine(line.ToJsonString());
        output.Flush();
    }

    private static JsonObject Run(string op, Command command)
    {
        switch (op)
        {
            case "hello":
                return Hello(command);
            case "configure":
                producing?.Discard();
                string? file = command.Optional("client_file");
                JsonObject echo = library!.Configure(command.Text("bootstrap"), new ClientFile(file), command.Settings());
                producing = new Producing(library);
                echo["client_file"] = file != null;
                return echo;
            case "warmup":
                JsonObject produced = Configured().WarmUp(command);
                produced["consume_cpu_us_per_record"] = Consuming.WarmUp(library!, command);
                return produced;
            case "produce":
                return Configured().Produce(command);
            case "consume":
                Configured();
                return new Consuming(library!, command, command.Text("via"), command.Flag("verify"), command.Flag("commit")).Run();
            case "roundtrip":
                Configured();
                return new Roundtrip(library!, command).Run();
            case "steady":
                return Steady.Run(library!, Configured(), command);
            case "gc":
                library!.Collect();
                return new JsonObject();
            case "stats":
                return Usage.Stats();
            case "bye":
                producing?.Discard();
                return new JsonObject();
            default:
                throw new Refused($"unknown op \"{op}\"");
        }
    }

    private static Producing Configured() => producing ?? throw new Refused("configure comes first");

    private static JsonObject Hello(Command command)
    {
        if (command.Number("protocol") != 1) throw new Refused("this driver speaks protocol 1");
        var capabilities = new JsonArray();
        foreach (string capability in Capabilities) capabilities.Add(capability);
        return new JsonObject
        {
            ["protocol"] = 1,
            ["library"] = library!.Name,
            ["library_version"] = library.Version,
            ["binding"] = library.Binding,
            ["runtime"] = library.Runtime,
            ["capabilities"] = capabilities,
        };
    }
}
