using System;
using System.Collections.Concurrent;
using System.Text.Json.Nodes;
using System.Threading;

namespace Weir.Driver;

/// <summary>
/// Produces at a constant rate, or consumes for some time, and reports the results of each second.
/// </summary>
internal static class Steady
{
    public static JsonObject Run(ILibrary library, Producing producing, Command command) => command.Text("role") switch
    {
        "produce" => Produce(producing, command),
        "consume" => Consume(library, command),
        var role => throw new Refused($"unknown role \"{role}\""),
    };

    private static JsonObject Produce(Producing producing, Command command)
    {
        string topic = command.Text("topic");
        byte[] value = Values.Make(command.Number("len"), command.Seed());
        double rate = command.Rate();
        if (!(rate > 0)) throw new Refused("\"rate\" is not above 0");
        long count = (long)(rate * command.Number("seconds"));
        var delivery = new Delivery(count);
        var latency = new Distribution();
        var pacing = new Distribution();
        // Reports arrive in the order of the records.
        var dues = new ConcurrentQueue<long>();
        ISender sender = producing.Warm(topic, command);
        sender.Reported = error =>
        {
            if (dues.TryDequeue(out long due) && error == null) latency.Record(Usage.Now() - due);
            delivery.Report(error);
        };
        var seconds = new Seconds(command);
        long ordinal = 0;
        try
        {
            Pacer.Run(seconds.Begin.At, rate, count, pacing, due =>
            {
                dues.Enqueue(due);
                sender.Send(topic, Values.Key(ordinal++), value, command);
                delivery.GiveUpInTime(command);
                seconds.Tick();
                seconds.Count(8 + value.Length);
            });
            sender.Flush(command.Left());
            delivery.Wait(command);
        }
        catch
        {
            producing.Discard();
            throw;
        }
        seconds.Rest();
        JsonObject answer = seconds.Finish(delivery.Failed);
        answer["latency"] = latency.Json();
        answer["pacing"] = pacing.Json();
        return answer;
    }

    private static JsonObject Consume(ILibrary library, Command command)
    {
        using IReader reader = library.NewReader(false, false);
        reader.Assign(command.Text("topic"));
        var seconds = new Seconds(command);
        while (seconds.Left() > TimeSpan.Zero)
        {
            seconds.Tick();
            TimeSpan left = seconds.Left();
            reader.Poll(left.TotalMilliseconds < 100 ? left : TimeSpan.FromMilliseconds(100), (key, value) =>
            {
                if (Values.Number(key) != Values.Primer) seconds.Count((key?.Length ?? 0) + (value?.Length ?? 0));
                return seconds.Left() > TimeSpan.Zero;
            });
        }
        return seconds.Finish(0);
    }
}

/// <summary>Totals and the current second.</summary>
internal sealed class Seconds
{
    public readonly Mark Begin = Mark.Begin();
    private readonly Command command;
    private readonly int seconds;
    private int reported;
    private long records;
    private long bytes;
    private long allRecords;
    private long allBytes;
    private long reportedCpu;

    public Seconds(Command command)
    {
        this.command = command;
        seconds = command.Number("seconds");
    }

    public void Count(long size)
    {
        records++;
        bytes += size;
    }

    public TimeSpan Left() => TimeSpan.FromMilliseconds(Math.Max(0, (Begin.At + seconds * 1_000_000_000L - Usage.Now()) / 1e6));

    /// <summary>
    /// Reports the completed seconds, except the last one, which ends with the command.
    /// </summary>
    public void Tick()
    {
        while (reported < seconds - 1 && Usage.Now() - Begin.At >= (reported + 1) * 1_000_000_000L) Report();
    }

    /// <summary>Waits until the time is over.</summary>
    public void Rest()
    {
        for (TimeSpan left = Left(); left > TimeSpan.Zero; left = Left())
        {
            Tick();
            Thread.Sleep(left.TotalMilliseconds < 100 ? left : TimeSpan.FromMilliseconds(100));
        }
    }

    public JsonObject Finish(long failed)
    {
        while (reported < seconds) Report();
        return new JsonObject { ["records"] = allRecords, ["bytes"] = allBytes, ["failed"] = failed, ["cpu_us"] = reportedCpu };
    }

    private void Report()
    {
        long used = (Usage.CpuNanos() - Begin.Cpu) / 1000;
        Program.Say(new JsonObject
        {
            ["id"] = command.Id, ["event"] = "second", ["second"] = reported++,
            ["records"] = records, ["bytes"] = bytes, ["cpu_us"] = used - reportedCpu,
        });
        reportedCpu = used;
        allRecords += records;
        allBytes += bytes;
        records = 0;
        bytes = 0;
    }
}
