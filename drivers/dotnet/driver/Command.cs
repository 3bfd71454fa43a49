using System;
using System.Text.Json;
using System.Text.Json.Nodes;

namespace Weir.Driver;

/// <summary>A command that failed, with the reason.</summary>
internal sealed class Refused : Exception
{
    public Refused(string why) : base(why) { }
}

/// <summary>A command: its fields by name, and its deadline.</summary>
internal sealed class Command
{
    private readonly JsonObject fields;
    private readonly long deadline;

    public Command(JsonObject fields)
    {
        this.fields = fields;
        double timeoutMs = fields["timeout_ms"]?.GetValue<double>() ?? 60_000;
        // Four fifths of the timeout, because an error is better than being killed.
        deadline = Usage.Now() + (long)(timeoutMs * 800_000);
    }

    public JsonNode? Id => fields["id"]?.DeepClone();

    public string Text(string name) => Get(name).ToString();

    public string? Optional(string name) => fields[name]?.ToString();

    public int Number(string name)
    {
        double value = Get(name).GetValue<double>();
        if (value is < 0 or > int.MaxValue) throw new Refused($"\"{name}\" is not from 0 to {int.MaxValue}");
        return (int)value;
    }

    public double Rate() => Get("rate").GetValue<double>();

    public ulong Seed() => (ulong)Get("seed").GetValue<double>();

    public bool Flag(string name) => fields[name]?.GetValueKind() == JsonValueKind.True;

    public JsonObject Settings() => Get("settings") as JsonObject ?? throw new Refused("\"settings\" is no object");

    public TimeSpan Left() => TimeSpan.FromMilliseconds(Math.Max(0, (deadline - Usage.Now()) / 1e6));

    public bool Late() => Usage.Now() >= deadline;

    private JsonNode Get(string name) => fields[name] ?? throw new Refused($"the command lacks \"{name}\"");
}
