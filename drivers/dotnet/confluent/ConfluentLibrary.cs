using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using System.Threading;
using Confluent.Kafka;

namespace Weir.Driver;

/// <summary>librdkafka through Confluent.Kafka.</summary>
internal sealed class ConfluentLibrary : ILibrary
{
    private const int BatchRecordsMax = 1_000_000;

    private static readonly Dictionary<string, Knob> Knobs = new()
    {
        ["acks"] = new("acks", Side.Producer),
        ["linger_ms"] = new("linger.ms", Side.Producer),
        ["batch_bytes"] = new("batch.size", Side.Producer),
        ["batch_records"] = new("batch.num.messages", Side.Producer),
        ["max_in_flight"] = new("max.in.flight.requests.per.connection", Side.Producer),
        ["retries"] = new("message.send.max.retries", Side.Producer),
        ["idempotence"] = new("enable.idempotence", Side.Producer),
        ["compression"] = new("compression.codec", Side.Producer),
        ["queue_bytes"] = new("queue.buffering.max.kbytes", Side.Producer),
        ["queue_records"] = new("queue.buffering.max.messages", Side.Producer),
        ["max_request_bytes"] = new("message.max.bytes", Side.Producer),
        ["send_buffer_bytes"] = new("socket.send.buffer.bytes", Side.Producer | Side.Consumer),
        ["receive_buffer_bytes"] = new("socket.receive.buffer.bytes", Side.Producer | Side.Consumer),
        ["fetch_min_bytes"] = new("fetch.min.bytes", Side.Consumer),
        ["fetch_wait_ms"] = new("fetch.wait.max.ms", Side.Consumer),
        ["fetch_partition_bytes"] = new("fetch.message.max.bytes", Side.Consumer),
        ["check_crcs"] = new("check.crcs", Side.Consumer),
        ["auto_commit"] = new("enable.auto.commit", Side.Group),
        ["auto_commit_ms"] = new("auto.commit.interval.ms", Side.Group),
    };

    private string? token;
    private Dictionary<string, string> producer = new();
    private Dictionary<string, string> direct = new();
    private Dictionary<string, string> group = new();

    public string Name => "librdkafka";
    public string Version => Confluent.Kafka.Library.VersionString;
    public string Binding => "Confluent.Kafka for .NET " + typeof(Message<,>).Assembly.GetName().Version;
    public string Runtime => RuntimeInformation.FrameworkDescription;

    public JsonObject Configure(string bootstrap, ClientFile client, JsonObject settings)
    {
        var sorted = new Sorted(settings, Knobs, Given, Effective);
        token = client.Token;
        producer = Merged(client, sorted.Producer);
        producer["bootstrap.servers"] = bootstrap;
        direct = Merged(client, sorted.Consumer);
        direct["bootstrap.servers"] = bootstrap;
        direct["enable.auto.commit"] = "false";
        group = Merged(client, sorted.Consumer);
        group["bootstrap.servers"] = bootstrap;
        group["auto.offset.reset"] = "earliest";
        foreach ((string key, string value) in sorted.Group) group[key] = value;
        // Creating a client validates the settings.
        NewSender(TimeSpan.Zero).Dispose();
        return sorted.Echo;
    }

    /// <summary>The properties of the client file have this library's names.</summary>
    private static Dictionary<string, string> Merged(ClientFile client, Dictionary<string, string> settings)
    {
        var merged = new Dictionary<string, string>(client.Properties);
        foreach ((string key, string value) in settings) merged[key] = value;
        return merged;
    }

    /// <summary>Called when the library needs a token for OAUTHBEARER: the one of the run.</summary>
    private void SetToken(IClient client)
    {
        long end = DateTimeOffset.UtcNow.AddHours(1).ToUnixTimeMilliseconds();
        client.OAuthBearerSetToken(token!, end, "weir");
    }

    private static string Given(string name, JsonNode value) => name switch
    {
        "queue_bytes" => Math.Max(1, (value.GetValue<long>() + 1023) / 1024).ToString(),
        "batch_records" when value.GetValue<long>() == 0 => BatchRecordsMax.ToString(),
        _ => Sorted.Plain(value),
    };

    /// <summary>The given settings, because the binding cannot read the effective ones.</summary>
    private static JsonNode? Effective(string name, JsonNode value)
    {
        if (!Knobs.ContainsKey(name)) return null;
        return name == "queue_bytes" ? Math.Max(1, (value.GetValue<long>() + 1023) / 1024) * 1024 : value.DeepClone();
    }

    public ISender NewSender(TimeSpan timeout)
    {
        var builder = new ProducerBuilder<byte[], byte[]>(producer);
        if (token != null) builder.SetOAuthBearerTokenRefreshHandler((client, _) => SetToken(client));
        return new Sender(builder.Build());
    }

    public IReader NewReader(bool viaGroup, bool commits)
    {
        var config = new Dictionary<string, string>(viaGroup ? group : direct) { ["group.id"] = "weir-" + Guid.NewGuid() };
        var builder = new ConsumerBuilder<byte[], byte[]>(config);
        if (token != null) builder.SetOAuthBearerTokenRefreshHandler((client, _) => SetToken(client));
        return new Reader(builder);
    }

    public void Collect()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
    }

    private sealed class Sender : ISender
    {
        private readonly IProducer<byte[], byte[]> producer;
        private readonly Action<DeliveryReport<byte[], byte[]>> handler;

        public Sender(IProducer<byte[], byte[]> producer)
        {
            this.producer = producer;
            handler = report => Reported?.Invoke(report.Error.IsError ? report.Error.Reason : null);
        }

        public Action<string?>? Reported { get; set; }

        public void AskMetadata(string topic, TimeSpan timeout)
        {
            using IAdminClient admin = new DependentAdminClientBuilder(producer.Handle).Build();
            TopicMetadata found = admin.GetMetadata(topic, timeout).Topics[0];
            if (found.Error.IsError) throw new Refused("no metadata: " + found.Error.Reason);
        }

        public void Send(string topic, byte[] key, byte[] value, Command command)
        {
            var partition = new TopicPartition(topic, 0);
            var message = new Message<byte[], byte[]> { Key = key, Value = value };
            while (true)
            {
                try
                {
                    producer.Produce(partition, message, handler);
                    return;
                }
                catch (ProduceException<byte[], byte[]> e) when (e.Error.Code == ErrorCode.Local_QueueFull)
                {
                    if (command.Late()) throw new Refused("the queue of the producer stayed full");
                    Thread.Sleep(1);
                }
            }
        }

        public void Flush(TimeSpan timeout) => producer.Flush(timeout);

        public void Discard() => producer.Dispose();

        public void Dispose() => producer.Dispose();
    }

    private sealed class Reader : IReader
    {
        private readonly IConsumer<byte[], byte[]> consumer;
        private Action? assigned;

        public Reader(ConsumerBuilder<byte[], byte[]> builder)
        {
            consumer = builder
                .SetPartitionsAssignedHandler((_, _) => assigned?.Invoke())
                .Build();
        }

        public void Subscribe(string topic, Action assigned)
        {
            this.assigned = assigned;
            consumer.Subscribe(topic);
        }

        public void Assign(string topic) => consumer.Assign(new TopicPartitionOffset(topic, 0, 0));

        public void Poll(TimeSpan timeout, Func<byte[]?, byte[]?, bool> take)
        {
            // Waits for the first record only.
            ConsumeResult<byte[], byte[]>? result = consumer.Consume(timeout);
            while (result != null && take(result.Message.Key, result.Message.Value)) result = consumer.Consume(TimeSpan.Zero);
        }

        public void Commit() => consumer.Commit();

        public void Dispose()
        {
            consumer.Close();
            consumer.Dispose();
        }
    }
}
