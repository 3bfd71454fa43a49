using System;
using System.Text.Json.Nodes;

namespace Weir.Driver;

/// <summary>A reading of a topic from its start.</summary>
internal sealed class Consuming
{
    private readonly ILibrary library;
    private readonly Command command;
    private readonly bool viaGroup;
    private readonly bool commit;
    private readonly int length;
    private readonly int count;
    /// <summary>The expected value, if values are compared.</summary>
    private readonly byte[]? value;
    private long? calls;
    private Mark s0;
    private long s1;
    private Mark s2;
    private Mark s3;
    private long s4;
    private int got;
    private long bytes;
    private long bad;

    public Consuming(ILibrary library, Command command, string via, bool verify, bool commit)
    {
        if (via is not ("group" or "assign")) throw new Refused($"unknown via \"{via}\"");
        this.library = library;
        this.command = command;
        this.commit = commit;
        viaGroup = via == "group";
        length = command.Number("len");
        count = command.Number("count");
        value = verify ? Values.Make(length, command.Seed()) : null;
    }

    public static double WarmUp(ILibrary library, Command command)
    {
        var reading = new Consuming(library, command, "assign", false, false);
        reading.Read();
        return (double)reading.s3.CpuMicrosSince(reading.s0) / Math.Max(1, reading.count);
    }

    public JsonObject Run()
    {
        Read();
        var marks = new JsonObject { ["s0"] = s0.At, ["s1"] = s1, ["s2"] = s2.At, ["s3"] = s3.At };
        if (commit) marks["s4"] = s4;
        var answer = new JsonObject
        {
            ["marks"] = marks,
            ["cpu_us"] = s3.CpuMicrosSince(s0),
            ["drain_cpu_us"] = s3.CpuMicrosSince(s2),
            ["got"] = got,
            ["bytes"] = bytes,
            ["bad"] = bad,
        };
        if (calls != null) answer["jni_calls"] = calls.Value;
        return answer;
    }

    private void Read()
    {
        string topic = command.Text("topic");
        using IReader reader = library.NewReader(viaGroup, commit);
        calls = library.ForeignCalls;
        s0 = Mark.Begin();
        if (viaGroup)
        {
            reader.Subscribe(topic, () => s1 = s1 == 0 ? Usage.Now() : s1);
        }
        else
        {
            reader.Assign(topic);
            s1 = Usage.Now();
        }
        while (got < count)
        {
            if (command.Late()) throw new Refused($"only {got} of {count} records came in time");
            TimeSpan left = command.Left();
            reader.Poll(left < HalfSecond ? left : HalfSecond, Take);
        }
        calls = library.ForeignCalls - calls;
        if (!commit) return;
        reader.Commit();
        s4 = Usage.Now();
    }

    private bool Take(byte[]? key, byte[]? read)
    {
        long number = Values.Number(key);
        if (number == Values.Primer) return true;
        if (got == 0) s2 = Mark.End();
        int size = read?.Length ?? 0;
        if (number != got || size != length || (value != null && !value.AsSpan().SequenceEqual(read))) bad++;
        bytes += (key?.Length ?? 0) + size;
        if (++got < count) return true;
        s3 = Mark.End();
        return false;
    }

    private static readonly TimeSpan HalfSecond = TimeSpan.FromMilliseconds(500);
}
