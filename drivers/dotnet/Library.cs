using System;
using System.Collections.Generic;
using System.Text.Json.Nodes;

namespace Weir.Driver;

/// <summary>One client library.</summary>
internal interface ILibrary
{
    string Name { get; }
    string Version { get; }
    string Binding { get; }
    string Runtime { get; }

    /// <summary>All clients made from here on have these settings. Returns `effective` and `unsupported`.</summary>
    JsonObject Configure(string bootstrap, JsonObject settings);

    /// <summary>A producer that waits for metadata or room no longer than there is time for.</summary>
    ISender NewSender(TimeSpan patience);

    /// <summary>A consumer, in a new group or told where to read; `commits`: it commits by command.</summary>
    IReader NewReader(bool viaGroup, bool commits);

    void Collect();
}

/// <summary>A producer.</summary>
internal interface ISender : IDisposable
{
    /// <summary>Called for each record in the order they were sent, with null or what went wrong.</summary>
    Action<string?>? Reported { get; set; }

    void AskMetadata(string topic, TimeSpan patience);

    /// <summary>Sends to partition 0; waits while the queue is full.</summary>
    void Send(string topic, byte[] key, byte[] value, Command command);

    void Flush(TimeSpan patience);

    /// <summary>Closes it with all that it still holds.</summary>
    void Discard();
}

/// <summary>A consumer.</summary>
internal interface IReader : IDisposable
{
    void Subscribe(string topic, Action assigned);

    /// <summary>Partition 0 from offset 0.</summary>
    void Assign(string topic);

    /// <summary>Hands over what comes until `take` returns false.</summary>
    void Poll(TimeSpan patience, Func<byte[]?, byte[]?, bool> take);

    void Commit();
}

/// <summary>How a setting of the protocol is called in a library.</summary>
internal sealed record Knob(string Key, Side Side);

[Flags]
internal enum Side { Producer = 1, Consumer = 2, Group = 4 }

/// <summary>Settings sorted by who has them, as texts.</summary>
internal sealed class Sorted
{
    public readonly Dictionary<string, string> Producer = new();
    public readonly Dictionary<string, string> Consumer = new();
    public readonly Dictionary<string, string> Group = new();
    public readonly JsonObject Echo;

    /// <summary>`given` turns a value into the library's; `effective` is what that means here.</summary>
    public Sorted(JsonObject asked, IReadOnlyDictionary<string, Knob> knobs, Func<string, JsonNode, string> given,
        Func<string, JsonNode, JsonNode?> effective)
    {
        var values = new JsonObject();
        var unsupported = new JsonArray();
        foreach ((string name, JsonNode? value) in asked)
        {
            if (value == null) continue;
            if (knobs.TryGetValue(name, out Knob? knob)) Put(knob, given(name, value));
            else unsupported.Add(name);
            values[name] = effective(name, value);
        }
        Echo = new JsonObject { ["effective"] = values, ["unsupported"] = unsupported };
    }

    private void Put(Knob knob, string value)
    {
        if (knob.Side.HasFlag(Side.Producer)) Producer[knob.Key] = value;
        if (knob.Side.HasFlag(Side.Consumer)) Consumer[knob.Key] = value;
        if (knob.Side.HasFlag(Side.Group)) Group[knob.Key] = value;
    }

    /// <summary>A value as configuration files write it.</summary>
    public static string Plain(JsonNode value) => value.ToString() switch
    {
        "True" or "true" => "true",
        "False" or "false" => "false",
        var text => text,
    };
}
