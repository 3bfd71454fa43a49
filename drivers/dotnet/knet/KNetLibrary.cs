using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text.Json.Nodes;
using MASES.KNet;
using Org.Apache.Kafka.Clients.Consumer;
using Org.Apache.Kafka.Clients.Producer;
using Collections = global::Java.Util.Collections;
using Properties = global::Java.Util.Properties;

namespace Weir.Driver;

/// <summary>
/// The official Java client through KNet, in a Java VM inside this process: produces with KNet's own
/// KNetProducer, which needs fewer calls into the VM for a record, or with the class KafkaProducer.
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

    private readonly bool raw;
    private Dictionary<string, string> producer = new();
    private Dictionary<string, string> consumer = new();
    private Dictionary<string, string> group = new();

    public KNetLibrary(bool raw)
    {
        this.raw = raw;
        Core.StartVm();
    }

    public string Name => "kafka-clients";
    public string Version => Core.ClientVersion;
    public string Binding => "KNet " + Core.KNetVersion + ", " + (raw ? "KafkaProducer" : "KNetProducer");
    public string Runtime => RuntimeInformation.FrameworkDescription + " with a Java VM inside, " + Core.JavaFlags;
    public long? ForeignCalls => Core.JniCalls;

    public JsonObject Configure(string bootstrap, ClientFile client, JsonObject settings)
    {
        var sorted = new Sorted(settings, Knobs, Given, Effective);
        Dictionary<string, string> security = JavaSecurity.Of(client);
        producer = new(sorted.Producer) { ["bootstrap.servers"] = bootstrap };
        consumer = new(sorted.Consumer)
        {
            ["bootstrap.servers"] = bootstrap, ["key.deserializer"] = Deserializer, ["value.deserializer"] = Deserializer,
            ["allow.auto.create.topics"] = "false",
        };
        foreach ((string key, string value) in security)
        {
            producer[key] = value;
            consumer[key] = value;
        }
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
        if (!raw) return new KNetSender(ToBuilder(settings));
        settings["key.serializer"] = Serializer;
        settings["value.serializer"] = Serializer;
        return new RawSender(new KafkaProducer<byte[], byte[]>(ToJava(settings)));
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

    /// <summary>Without serializers: the producer sets its own, which pass bytes through.</summary>
    private static MASES.KNet.Producer.ProducerConfigBuilder ToBuilder(Dictionary<string, string> settings)
    {
        var builder = MASES.KNet.Producer.ProducerConfigBuilder.Create();
        foreach ((string key, string value) in settings) builder.SetProperty(key, value);
        return builder;
    }

    public void Collect()
    {
        GC.Collect();
        GC.WaitForPendingFinalizers();
        global::Java.Lang.System.Gc();
    }

    /// <summary>
    /// A producer whose delivery reports come through one callback for all records. Topics have one
    /// partition, so none is named; a name would be one more object in each call.
    /// </summary>
    private abstract class JavaSender : ISender
    {
        protected readonly Callback callback;

        protected JavaSender()
        {
            callback = new Callback
            {
                OnOnCompletion = (metadata, error) =>
                {
                    Reported?.Invoke(error?.Message);
                    metadata?.Dispose();
                },
            };
        }

        public Action<string?>? Reported { get; set; }

        public abstract void AskMetadata(string topic, TimeSpan timeout);

        public abstract void Send(string topic, byte[] key, byte[] value, Command command);

        public abstract void Flush(TimeSpan timeout);

        public void Discard() => Close(TimeSpan.Zero);

        public void Dispose() => Close(TimeSpan.FromSeconds(5));

        protected abstract void Close(TimeSpan timeout);
    }

    private sealed class KNetSender : JavaSender
    {
        private readonly MASES.KNet.Producer.KNetProducer<byte[], byte[]> producer;

        public KNetSender(MASES.KNet.Producer.ProducerConfigBuilder settings)
        {
            producer = new MASES.KNet.Producer.KNetProducer<byte[], byte[]>(settings);
            producer.SetCallback(callback);
        }

        public override void AskMetadata(string topic, TimeSpan timeout) => producer.PartitionsFor(topic);

        public override void Send(string topic, byte[] key, byte[] value, Command command)
        {
            using var future = producer.Send(topic, key, value);
        }

        public override void Flush(TimeSpan timeout) => producer.Flush();

        protected override void Close(TimeSpan timeout)
        {
            producer.Close((global::Java.Time.Duration)timeout);
            producer.Dispose();
            callback.Dispose();
        }
    }

    private sealed class RawSender : JavaSender
    {
        private readonly KafkaProducer<byte[], byte[]> producer;
        private string topic = "";
        /// <summary>The topic as an object of the VM, for all records.</summary>
        private global::Java.Lang.String? javaTopic;

        public RawSender(KafkaProducer<byte[], byte[]> producer) => this.producer = producer;

        public override void AskMetadata(string topic, TimeSpan timeout) => producer.PartitionsFor(topic);

        public override void Send(string topic, byte[] key, byte[] value, Command command)
        {
            if (javaTopic == null || this.topic != topic)
            {
                javaTopic?.Dispose();
                javaTopic = (global::Java.Lang.String)topic;
                this.topic = topic;
            }
            using var record = new ProducerRecord<byte[], byte[]>(javaTopic, key, value);
            using var future = producer.Send(record, callback);
        }

        public override void Flush(TimeSpan timeout) => producer.Flush();

        protected override void Close(TimeSpan timeout)
        {
            producer.Close((global::Java.Time.Duration)timeout);
            producer.Dispose();
            javaTopic?.Dispose();
            callback.Dispose();
        }
    }

    private sealed class Reader : IReader
    {
        private readonly KafkaConsumer<byte[], byte[]> consumer;
        private ConsumerRebalanceListener? listener;
        private TimeSpan timeout;
        /// <summary>The last timeout as an object of the VM.</summary>
        private global::Java.Time.Duration? duration;

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
            if (duration == null || this.timeout != timeout)
            {
                duration?.Dispose();
                duration = (global::Java.Time.Duration)timeout;
                this.timeout = timeout;
            }
            using var records = consumer.Poll(duration);
            foreach (var record in records)
            {
                using (record)
                {
                    if (!take(record.Key(), record.Value())) return;
                }
            }
        }

        public void Commit() => consumer.CommitSync();

        public void Dispose()
        {
            consumer.Close();
            consumer.Dispose();
            listener?.Dispose();
            duration?.Dispose();
        }
    }
}
