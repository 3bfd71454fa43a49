using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using Java.Util;
using MASES.KNet;
using Org.Apache.Kafka.Clients.Consumer;
using Org.Apache.Kafka.Clients.Producer;

namespace Weir.Driver;

/// <summary>Starts the Java VM in this process.</summary>
internal sealed class Core : KNetCore<Core>
{
}

/// <summary>
/// The official Java client through KNet: its classes unchanged, with one call into the VM for each
/// method.
/// </summary>
internal sealed class KNetLibrary : ILibrary
{
    private const string Serializer = "org.apache.kafka.common.serialization.ByteArraySerializer";
    private const string Deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
    private const long MaxBlockDefaultMs = 60_000;

    private static readonly Dictionary<string, Knob> Knobs = new()
    {
        ["acks"] = new("acks", Side.Producer),
        ["linger_ms"] = new("linger.ms", Side.Producer),
        ["batch_bytes"] = new("batch.size", Side.Producer),
        ["max_in_flight"] = new("max.in.flight.requests.per.connection", Side.Producer),
        ["retries"] = new("retries", Side.Producer),
        ["idempotence"] = new("enable.idempotence", Side.Producer),
        ["compression"] = new("compression.type", Side.Producer),
        ["queue_bytes"] = new("buffer.memory", Side.Producer),
        ["max_request_bytes"] = new("max.request.size", Side.Producer),
        ["send_buffer_bytes"] = new("send.buffer.bytes", Side.Producer | Side.Consumer),
        ["receive_buffer_bytes"] = new("receive.buffer.bytes", Side.Producer | Side.Consumer),
        ["fetch_min_bytes"] = new("fetch.min.bytes", Side.Consumer),
        ["fetch_wait_ms"] = new("fetch.max.wait.ms", Side.Consumer),
        ["fetch_partition_bytes"] = new("max.partition.fetch.bytes", Side.Consumer),
        ["check_crcs"] = new("check.crcs", Side.Consumer),
        ["auto_commit"] = new("enable.auto.commit", Side.Group),
        ["auto_commit_ms"] = new("auto.commit.interval.ms", Side.Group),
    };

    private Dictionary<string, string> producer = new();
    private Dictionary<string, string> consumer = new();
    private Dictionary<string, string> group = new();

    public KNetLibrary() => Core.Create();

    public string Name => "kafka-clients";
    public string Version => "as KNet " + KNetVersion + " brings it";
    public string Binding => "KNet " + KNetVersion;
    public string Runtime => RuntimeInformation.FrameworkDescription + " with a Java VM, JAVA_TOOL_OPTIONS \""
        + Environment.GetEnvironmentVariable("JAVA_TOOL_OPTIONS") + "\"";

    private static string KNetVersion => typeof(KNetCore<>).Assembly.GetName().Version?.ToString() ?? "unknown";

    public JsonObject Configure(string bootstrap, JsonObject settings)
    {
        var sorted = new Sorted(settings, Knobs, Given, Effective);
        producer = new(sorted.Producer)
        {
            ["bootstrap.servers"] = bootstrap, ["key.serializer"] = Serializer, ["value.serializer"] = Serializer,
        };
        consumer = new(sorted.Consumer)
        {
            ["bootstrap.servers"] = bootstrap, ["key.deserializer"] = Deserializer, ["value.deserializer"] = Deserializer,
            ["allow.auto.create.topics"] = "false",
        };
        group = new(sorted.Group) { ["auto.offset.reset"] = "earliest" };
        return sorted.Echo;
    }

    private static string Given(string name, JsonNode value)
    {
        string text = Sorted.Plain(value);
        // The library's value for the default of the operating system is -1.
        return name.EndsWith("_buffer_bytes") && text == "0" ? "-1" : text;
    }

    private static JsonNode? Effective(string name, JsonNode value)
    {
        if (Knobs.ContainsKey(name)) return value.DeepClone();
        // No number of records closes a batch, as 0 requests. The queue is limited by bytes only.
        return name == "batch_records" ? JsonValue.Create(0) : null;
    }

    public ISender NewSender(TimeSpan timeout)
    {
        long block = Math.Min(MaxBlockDefaultMs, Math.Max(1, (long)timeout.TotalMilliseconds));
        var settings = new Dictionary<string, string>(producer) { ["max.block.ms"] = block.ToString() };
        return new Sender(new KafkaProducer<byte[], byte[]>(ToJava(settings)));
    }

    public IReader NewReader(bool viaGroup, bool commits)
    {
        var settings = new Dictionary<string, string>(consumer);
        if (viaGroup)
        {
            foreach ((string key, string value) in group) settings[key] = value;
        }
        else if (commits)
        {
            settings["enable.auto.commit"] = "false";
        }
        if (viaGroup || commits) settings["group.id"] = "weir-" + Guid.NewGuid();
        return new Reader(new KafkaConsumer<byte[], byte[]>(ToJava(settings)));
    }

    private static Properties ToJava(Dictionary<string, string> settings)
    {
        var properties = new Properties();
        foreach ((string key, string value) in settings)
        {
            properties.Put((global::Java.Lang.String)key, (global::Java.Lang.String)value);
        }
        return properties;
    }

    public void Collect()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
        global::Java.Lang.System.Gc();
    }

    private sealed class Sender : ISender
    {
        private readonly KafkaProducer<byte[], byte[]> producer;
        private readonly Callback callback;

        public Sender(KafkaProducer<byte[], byte[]> producer)
        {
            this.producer = producer;
            callback = new Callback { OnOnCompletion = (_, error) => Reported?.Invoke(error?.Message) };
        }

        public Action<string?>? Reported { get; set; }

        public void AskMetadata(string topic, TimeSpan timeout) => producer.PartitionsFor(topic);

        /// <summary>
        /// Topics have one partition, so none is named; a name would be one more object in each
        /// call.
        /// </summary>
        public void Send(string topic, byte[] key, byte[] value, Command command)
        {
            using var record = new ProducerRecord<byte[], byte[]>(topic, key, value);
            using var future = producer.Send(record, callback);
        }

        public void Flush(TimeSpan timeout) => producer.Flush();

        public void Discard() => Close(TimeSpan.Zero);

        public void Dispose() => Close(TimeSpan.FromSeconds(5));

        private void Close(TimeSpan timeout)
        {
            producer.Close((global::Java.Time.Duration)timeout);
            producer.Dispose();
            callback.Dispose();
        }
    }

    private sealed class Reader : IReader
    {
        private readonly KafkaConsumer<byte[], byte[]> consumer;
        private ConsumerRebalanceListener? listener;

        public Reader(KafkaConsumer<byte[], byte[]> consumer) => this.consumer = consumer;

        public void Subscribe(string topic, Action assigned)
        {
            listener = new ConsumerRebalanceListener
            {
                OnOnPartitionsAssigned = _ => assigned(),
                OnOnPartitionsRevoked = _ => { },
            };
            consumer.Subscribe(Collections.Singleton((global::Java.Lang.String)topic), listener);
        }

        public void Assign(string topic)
        {
            var partition = new Org.Apache.Kafka.Common.TopicPartition(topic, 0);
            consumer.Assign(Collections.Singleton(partition));
            consumer.Seek(partition, 0L);
        }

        public void Poll(TimeSpan timeout, Func<byte[]?, byte[]?, bool> take)
        {
            using global::Java.Time.Duration duration = timeout;
            using var records = consumer.Poll(duration);
            foreach (var record in records)
            {
                if (!take(record.Key(), record.Value())) return;
            }
        }

        public void Commit() => consumer.CommitSync();

        public void Dispose()
        {
            consumer.Close();
            consumer.Dispose();
            listener?.Dispose();
        }
    }
}
