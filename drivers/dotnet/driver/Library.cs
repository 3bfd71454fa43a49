using System;
using System.Collections.Generic;
using System.Text.Json;
using System.Text.Json.Nodes;

namespace Weir.Driver;

/// <summary>A client library.</summary>
internal interface ILibrary
{
    string Name { get; }
    string Version { get; }
    string Binding { get; }
    string Runtime { get; }

    /// <summary>
    /// Sets the settings of clients created from now on. Returns `effective` and `unsupported`.
    /// </summary>
    JsonObject Configure(string bootstrap, ClientFile client, JsonObject settings);

    /// <summary>Number of calls into another runtime so far; null if the library counts none.</summary>
    long? ForeignCalls => null;

    /// <summary>
    /// Creates a producer that waits for metadata or queue space no longer than the timeout.
    /// </summary>
    ISender NewSender(TimeSpan timeout);

    /// <summary>
    /// Creates a consumer, in a new group or with an assigned partition; `commits`: it commits by
    /// command.
    /// </summary>
    IReader NewReader(bool viaGroup, bool commits);

    void Collect();
}

/// <summary>A producer.</summary>
internal interface ISender : IDisposable
{
    /// <summary>Called for each record in the order of sending, with null or the error.</summary>
    Action<string?>? Reported { get; set; }

    void AskMetadata(string topic, TimeSpan timeout);

    /// <summary>Sends to partition 0; waits while the queue is full.</summary>
    void Send(string topic, byte[] key, byte[] value, Command command);

    void Flush(TimeSpan timeout);

    /// <summary>Closes it and discards queued records.</summary>
    void Discard();
}

/// <summary>A consumer.</summary>
internal interface IReader : IDisposable
{
    void Subscribe(string topic, Action assigned);

    /// <summary>Partition 0 from offset 0.</summary>
    void Assign(string topic);

    /// <summary>Passes received records to `take` until it returns false.</summary>
    void Poll(TimeSpan timeout, Func<byte[]?, byte[]?, bool> take);

    void Commit();
}

/// <summary>Name of a protocol setting in a library.</summary>
internal sealed record Knob(string Key, Side Side);

[Flags]
internal enum Side { Producer = 1, Consumer = 2, Group = 4 }

/// <summary>Settings by client, as texts.</summary>
internal sealed class Sorted
{
    public readonly Dictionary<string, string> Producer = new();
    public readonly Dictionary<string, string> Consumer = new();
    public readonly Dictionary<string, string> Group = new();
    public readonly JsonObject Echo;

    /// <summary>`given` converts a value to the library's; `effective` converts it back.</summary>
    public Sorted(JsonObject asked, IReadOnlyDictionary<string, Knob> knobs, Func<string, JsonNode, string> given,
        Func<string, JsonNode, JsonNode?> effective)
    {
        var values = new JsonObject();
        var unsupported = new JsonArray();
        foreach ((string name, JsonNode? value) in asked)
        {
            if (value == null) continue;
            if (knobs.TryGetValue(name, out Knob? knob))
            {
                Check(name, value);
                Put(knob, given(name, value));
            }
            else
            {
                unsupported.Add(name);
            }
            values[name] = effective(name, value);
        }
        Echo = new JsonObject { ["effective"] = values, ["unsupported"] = unsupported };
    }

    /// <summary>Rejects a value of another type, which some clients would report at first use.</summary>
    private static void Check(string name, JsonNode value)
    {
        JsonValueKind kind = value.GetValueKind();
        bool right = name switch
        {
            "idempotence" or "check_crcs" or "auto_commit" => kind is JsonValueKind.True or JsonValueKind.False,
            "compression" => kind == JsonValueKind.String && Array.IndexOf(Codecs, value.ToString()) >= 0,
            _ => kind == JsonValueKind.Number,
        };
        if (!right) throw new Refused($"{name} cannot be {value.ToJsonString()}");
    }

    private static readonly string[] Codecs = { "none", "gzip", "snappy", "lz4", "zstd" };

    private void Put(Knob knob, string value)
    {
        if (knob.Side.HasFlag(Side.Producer)) Producer[knob.Key] = value;
        if (knob.Side.HasFlag(Side.Consumer)) Consumer[knob.Key] = value;
        if (knob.Side.HasFlag(Side.Group)) Group[knob.Key] = value;
    }

    /// <summary>A value as in configuration files.</summary>
    public static string Plain(JsonNode value) => value.ToString() switch
    {
        "True" or "true" => "true",
        "False" or "false" => "false",
        var text => text,
    };
}
