using System;
using System.Text.Json.Nodes;
using System.Threading;

namespace Weir.Driver;

/// <summary>
/// A producer and a consumer of the same topic in one process. The consumer has its own thread.
/// </summary>
internal sealed class Roundtrip
{
    private readonly ILibrary library;
    private readonly Command command;
    private readonly string topic;
    private readonly int count;
    private readonly double rate;
    private readonly byte[] value;
    private readonly Delivery delivery;
    private readonly Distribution latency = new();
    private readonly Distribution pacing = new();
    private readonly ManualResetEventSlim primed = new();
    private readonly ManualResetEventSlim received = new();
    private volatile bool stopped;
    private volatile Exception? error;
    private int got;
    private Mark last;

    public Roundtrip(ILibrary library, Command command)
    {
        this.library = library;
        this.command = command;
        topic = command.Text("topic");
        count = command.Number("count");
        rate = command.Rate();
        value = Values.Make(command.Number("len"), command.Seed());
        delivery = new Delivery(count);
    }

    public JsonObject Run()
    {
        var thread = new Thread(Read) { IsBackground = true };
        ISender sender = library.NewSender(command.Left());
        thread.Start();
        try
        {
            Producing.Prime(sender, topic, command);
            Await(primed, "the consumer did not get the primer in time");
            JsonObject answer = Measure(sender);
            sender.Dispose();
            return answer;
        }
        catch
        {
            sender.Discard();
            throw;
        }
        finally
        {
            stopped = true;
            thread.Join();
        }
    }

    private JsonObject Measure(ISender sender)
    {
        sender.Reported = delivery.Report;
        long? calls = library.ForeignCalls;
        Mark t0 = Mark.Begin();
        if (rate > 0)
        {
            Pacer.Run(t0.At, rate, count, pacing, due => Send(sender, due));
        }
        else
        {
            for (int i = 0; i < count; i++) Send(sender, Usage.Now());
        }
        long t1 = Usage.Now();
        sender.Flush(command.Left());
        delivery.Wait(command);
        Await(received, "not all records came back in time");
        calls = library.ForeignCalls - calls;
        Mark t2 = delivery.Last;
        var answer = new JsonObject
        {
            ["marks"] = new JsonObject
            {
                ["t0"] = t0.At, ["t1"] = t1, ["t2"] = Math.Max(t0.At, t2.At), ["r1"] = Math.Max(t0.At, last.At),
            },
            ["cpu_us"] = (last.At > t2.At ? last : t2).CpuMicrosSince(t0),
            ["got"] = got,
            ["latency"] = latency.Json(),
            ["pacing"] = pacing.Json(),
        };
        delivery.Echo(answer);
        if (calls != null) answer["jni_calls"] = calls.Value;
        return answer;
    }

    private void Send(ISender sender, long instant)
    {
        sender.Send(topic, Values.Key(instant), value, command);
        delivery.GiveUpInTime(command);
    }

    private void Await(ManualResetEventSlim happened, string late)
    {
        bool came = happened.Wait(command.Left());
        if (error != null) throw new Refused("the consumer failed: " + Program.Reason(error));
        if (!came) throw new Refused(late);
    }

    private void Read()
    {
        try
        {
            using IReader reader = library.NewReader(false, false);
            reader.Assign(topic);
            if (count == 0) Finish();
            while (!stopped && !(primed.IsSet && received.IsSet)) reader.Poll(TimeSpan.FromMilliseconds(200), Take);
        }
        catch (Exception e)
        {
            error = e;
            primed.Set();
            received.Set();
        }
    }

    private bool Take(byte[]? key, byte[]? read)
    {
        long number = Values.Number(key);
        if (number == Values.Primer)
        {
            primed.Set();
            return true;
        }
        latency.Record(Usage.Now() - number);
        if (++got < count) return true;
        Finish();
        return false;
    }

    private void Finish()
    {
        last = Mark.End();
        received.Set();
    }
}

/// <summary>Calls at absolute times: a late call is made at once, and no call is skipped.</summary>
internal static class Pacer
{
    /// <summary>Sleeping has a resolution of 1 ms.</summary>
    public static void Run(long begin, double rate, long count, Distribution pacing, Action<long> call)
    {
        for (long i = 0; i < count; i++)
        {
            long due = begin + (long)(i * 1e9 / rate);
            long now = Usage.Now();
            for (; now < due; now = Usage.Now())
            {
                Thread.Sleep((int)Math.Max(1, (due - now) / 1_000_000));
            }
            pacing.Record(now - due);
            call(due);
        }
    }
}
