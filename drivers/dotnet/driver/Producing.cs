using System;
using System.Collections.Generic;
using System.Text.Json.Nodes;
using System.Threading;

namespace Weir.Driver;

/// <summary>Counts the delivery reports of one command.</summary>
internal sealed class Delivery
{
    private readonly long expected;
    private readonly List<string> errors = new();
    private readonly ManualResetEventSlim done = new();
    private long missing;
    private long failed;

    public Delivery(long expected)
    {
        this.expected = missing = expected;
        if (expected == 0) Finish();
    }

    public Mark Last { get; private set; }

    public long Failed => Interlocked.Read(ref failed);

    /// <summary>May be called in the sending thread or the library's.</summary>
    public void Report(string? error)
    {
        if (error != null)
        {
            Interlocked.Increment(ref failed);
            lock (errors)
            {
                if (errors.Count < 5 && !errors.Contains(error)) errors.Add(error);
            }
        }
        if (Interlocked.Decrement(ref missing) == 0) Finish();
    }

    private void Finish()
    {
        Last = Mark.End();
        done.Set();
    }

    public void Wait(Command command)
    {
        if (!done.Wait(command.Left())) throw Unfinished();
    }

    /// <summary>
    /// Stops after the deadline: a failed send may have blocked for its maximum time, and the next
    /// would, too.
    /// </summary>
    public void GiveUpInTime(Command command)
    {
        if (Failed > 0 && command.Late()) throw Unfinished();
    }

    private Refused Unfinished()
    {
        lock (errors)
        {
            string why = errors.Count == 0 ? "" : ": " + errors[0];
            return new Refused($"only {expected - Interlocked.Read(ref missing)} of {expected} delivery reports came in time{why}");
        }
    }

    public void Echo(JsonObject answer)
    {
        var texts = new JsonArray();
        lock (errors)
        {
            foreach (string error in errors) texts.Add(error);
        }
        answer["acked"] = expected - Failed;
        answer["failed"] = Failed;
        answer["errors"] = texts;
    }
}

/// <summary>Bursts of records, and the producer that is reused.</summary>
internal sealed class Producing
{
    private readonly ILibrary library;
    /// <summary>Topics to which the reused producer has delivered a primer.</summary>
    private readonly HashSet<string> primed = new();
    private ISender? kept;

    public Producing(ILibrary library) => this.library = library;

    public JsonObject Produce(Command command)
    {
        var burst = new Burst(library, command, command.Flag("per_record"));
        string state = command.Text("state");
        switch (state)
        {
            case "cold":
            case "metadata":
                InNewProducer(burst, command, state == "metadata");
                break;
            case "warm":
                InKeptProducer(burst, command);
                break;
            default:
                throw new Refused($"unknown state \"{state}\"");
        }
        return burst.Answer();
    }

    public JsonObject WarmUp(Command command)
    {
        var burst = new Burst(library, command, false);
        InKeptProducer(burst, command);
        if (burst.Delivery.Failed > 0) throw new Refused("records of the warm-up failed");
        return new JsonObject { ["produce_cpu_us_per_record"] = (double)burst.CpuMicros() / Math.Max(1, burst.Count) };
    }

    private void InNewProducer(Burst burst, Command command, bool askFirst)
    {
        burst.Start();
        ISender sender = library.NewSender(command.Left());
        try
        {
            if (askFirst)
            {
                sender.AskMetadata(burst.Topic, command.Left());
                burst.Start();
            }
            burst.Send(sender);
        }
        catch
        {
            sender.Discard();
            throw;
        }
        sender.Dispose();
    }

    private void InKeptProducer(Burst burst, Command command)
    {
        ISender sender = Warm(burst.Topic, command);
        try
        {
            burst.Start();
            burst.Send(sender);
        }
        catch
        {
            Discard();
            throw;
        }
    }

    /// <summary>Returns the reused producer, which has delivered a primer to the topic.</summary>
    public ISender Warm(string topic, Command command)
    {
        kept ??= library.NewSender(command.Left());
        try
        {
            if (!primed.Contains(topic)) Prime(kept, topic, command);
            primed.Add(topic);
        }
        catch
        {
            Discard();
            throw;
        }
        return kept;
    }

    public static void Prime(ISender sender, string topic, Command command)
    {
        var delivery = new Delivery(1);
        sender.Reported = delivery.Report;
        // In another thread, which ends when the producer is closed: loading metadata may exceed
        // the timeout.
        var thread = new Thread(() =>
        {
            try
            {
                sender.Send(topic, Values.Key(Values.Primer), Values.PrimerValue, command);
                sender.Flush(command.Left());
            }
            catch (Exception e)
            {
                Console.Error.WriteLine("primer: " + Program.Reason(e));
            }
        }) { IsBackground = true };
        thread.Start();
        delivery.Wait(command);
        thread.Join(command.Left());
        if (delivery.Failed > 0) throw new Refused("the primer was not delivered");
    }

    /// <summary>Discards the reused producer.</summary>
    public void Discard()
    {
        kept?.Discard();
        kept = null;
        primed.Clear();
    }
}

/// <summary>A burst: its records and measurements.</summary>
internal sealed class Burst
{
    public readonly string Topic;
    public readonly int Count;
    public readonly Delivery Delivery;
    private readonly ILibrary library;
    private readonly Command command;
    private readonly bool perRecord;
    private readonly byte[] value;
    private readonly byte[][] keys;
    private long? calls;
    private Mark t0;
    private long t1;
    private long sending;

    public Burst(ILibrary library, Command command, bool perRecord)
    {
        this.library = library;
        this.command = command;
        this.perRecord = perRecord;
        Topic = command.Text("topic");
        Count = command.Number("count");
        value = Values.Make(command.Number("len"), command.Seed());
        keys = new byte[Count][];
        for (int i = 0; i < Count; i++) keys[i] = Values.Key(i);
        Delivery = new Delivery(Count);
    }

    public void Start()
    {
        calls = library.ForeignCalls;
        t0 = Mark.Begin();
    }

    public void Send(ISender sender)
    {
        sender.Reported = Delivery.Report;
        foreach (byte[] key in keys)
        {
            long begin = perRecord ? Usage.Now() : 0;
            sender.Send(Topic, key, value, command);
            if (perRecord) sending += Usage.Now() - begin;
            Delivery.GiveUpInTime(command);
        }
        t1 = Usage.Now();
        sender.Flush(command.Left());
        Delivery.Wait(command);
        calls = library.ForeignCalls - calls;
    }

    public long CpuMicros() => Delivery.Last.CpuMicrosSince(t0);

    public JsonObject Answer()
    {
        var answer = new JsonObject
        {
            ["marks"] = new JsonObject { ["t0"] = t0.At, ["t1"] = t1, ["t2"] = Math.Max(t0.At, Delivery.Last.At) },
            ["cpu_us"] = CpuMicros(),
        };
        Delivery.Echo(answer);
        if (calls != null) answer["jni_calls"] = calls.Value;
        if (perRecord)
        {
            // Creating a message is part of sending it.
            answer["create_us"] = 0;
            answer["send_us"] = sending / 1000;
        }
        return answer;
    }
}
