package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The settings of all clients created from now on.
type settings struct {
	all         []kgo.Opt
	ofProducers []kgo.Opt
	ofConsumers []kgo.Opt
	ofGroups    []kgo.Opt
	effective   answer
	unsupported []string
}

// Conversion of a protocol setting to the library's, and back.
type knob struct {
	take func(*settings, json.RawMessage) error
	// The effective value; nil: the requested one.
	read func(*kgo.Client) any
}

var knobs = map[string]knob{
	"acks": {
		ofProducer(func(acks int) kgo.Opt { return kgo.RequiredAcks(acksOf(acks)) }),
		func(client *kgo.Client) any { return acksNumber(client.OptValue(kgo.RequiredAcks).(kgo.Acks)) },
	},
	"linger_ms": {
		ofProducer(func(ms float64) kgo.Opt { return kgo.ProducerLinger(milliseconds(ms)) }),
		func(client *kgo.Client) any { return inMilliseconds(client.OptValue(kgo.ProducerLinger)) },
	},
	"batch_bytes": {
		ofProducer(func(bytes int32) kgo.Opt { return kgo.ProducerBatchMaxBytes(bytes) }),
		func(client *kgo.Client) any { return client.OptValue(kgo.ProducerBatchMaxBytes) },
	},
	"retries": {
		ofProducer(func(retries int) kgo.Opt { return kgo.RecordRetries(retries) }),
		func(client *kgo.Client) any { return client.OptValue(kgo.RecordRetries) },
	},
	"compression": {
		func(s *settings, value json.RawMessage) error {
			var name string
			if err := json.Unmarshal(value, &name); err != nil {
				return err
			}
			codec, known := codecs[name]
			if !known {
				return fmt.Errorf("unknown codec %q", name)
			}
			s.ofProducers = append(s.ofProducers, kgo.ProducerBatchCompression(codec))
			return nil
		},
		nil,
	},
	"queue_bytes": {
		ofProducer(func(bytes int) kgo.Opt { return kgo.MaxBufferedBytes(bytes) }),
		func(client *kgo.Client) any { return client.OptValue(kgo.MaxBufferedBytes) },
	},
	"queue_records": {
		ofProducer(func(records int) kgo.Opt { return kgo.MaxBufferedRecords(records) }),
		func(client *kgo.Client) any { return client.OptValue(kgo.MaxBufferedRecords) },
	},
	"max_request_bytes": {
		ofProducer(func(bytes int32) kgo.Opt { return kgo.BrokerMaxWriteBytes(bytes) }),
		func(client *kgo.Client) any { return client.OptValue(kgo.BrokerMaxWriteBytes) },
	},
	"fetch_min_bytes": {
		ofConsumer(func(bytes int32) kgo.Opt { return kgo.FetchMinBytes(bytes) }),
		func(client *kgo.Client) any { return client.OptValue(kgo.FetchMinBytes) },
	},
	"fetch_wait_ms": {
		ofConsumer(func(ms float64) kgo.Opt { return kgo.FetchMaxWait(milliseconds(ms)) }),
		func(client *kgo.Client) any { return inMilliseconds(client.OptValue(kgo.FetchMaxWait)) },
	},
	"fetch_partition_bytes": {
		ofConsumer(func(bytes int32) kgo.Opt { return kgo.FetchMaxPartitionBytes(bytes) }),
		func(client *kgo.Client) any { return client.OptValue(kgo.FetchMaxPartitionBytes) },
	},
	"check_crcs": {
		func(s *settings, value json.RawMessage) error {
			check, err := parsed[bool](value)
			if err == nil && !check {
				s.ofConsumers = append(s.ofConsumers, kgo.DisableFetchCRCValidation())
			}
			return err
		},
		func(client *kgo.Client) any { return !client.OptValue(kgo.DisableFetchCRCValidation).(bool) },
	},
	"auto_commit": {
		func(s *settings, value json.RawMessage) error {
			commit, err := parsed[bool](value)
			if err == nil && !commit {
				s.ofGroups = append(s.ofGroups, kgo.DisableAutoCommit())
			}
			return err
		},
		nil,
	},
	"auto_commit_ms": {
		func(s *settings, value json.RawMessage) error {
			ms, err := parsed[float64](value)
			s.ofGroups = append(s.ofGroups, kgo.AutoCommitInterval(milliseconds(ms)))
			return err
		},
		nil,
	},
}

// Settings that the library does not have, and its behaviour instead.
var missing = map[string]any{
	// No number of records closes a batch, as 0 requests.
	"batch_records": 0,
	// Sockets have the operating system's defaults, unless the program has its own dialer.
	"send_buffer_bytes":    0,
	"receive_buffer_bytes": 0,
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func newSettings(bootstrap string, security []kgo.Opt, asked map[string]json.RawMessage) (*settings, error) {
	s := &settings{all: append(security, kgo.SeedBrokers(bootstrap)), effective: answer{}, unsupported: []string{}}
	s.ofProducers = append(s.ofProducers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for name, value := range asked {
		if knob, known := knobs[name]; known {
			if err := knob.take(s, value); err != nil {
				return nil, fmt.Errorf("setting %s: %w", name, err)
			}
		}
	}
	idempotent, err := s.takeIdempotence(asked)
	if err != nil {
		return nil, err
	}
	// Never used: no connection is opened.
	client, err := kgo.NewClient(append(append(s.all[:len(s.all):len(s.all)], s.ofProducers...), s.ofConsumers...)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for name, value := range asked {
		s.echo(client, name, value, idempotent)
	}
	for name, knob := range knobs {
		if _, done := s.effective[name]; !done && knob.read != nil {
			s.effective[name] = knob.read(client)
		}
	}
	for _, name := range []string{"idempotence", "max_in_flight"} {
		s.echo(client, name, nil, idempotent)
	}
	return s, nil
}

// The library is idempotent by default. Idempotence requires acks all and excludes a number of
// in-flight requests, which the library then chooses itself.
func (s *settings) takeIdempotence(asked map[string]json.RawMessage) (bool, error) {
	idempotent, acks, inFlight := true, -1, 0
	for name, into := range map[string]any{"idempotence": &idempotent, "acks": &acks, "max_in_flight": &inFlight} {
		if value, given := asked[name]; given {
			if err := json.Unmarshal(value, into); err != nil {
				return false, fmt.Errorf("setting %s: %w", name, err)
			}
		}
	}
	if _, given := asked["idempotence"]; !given {
		idempotent = acks == -1
	}
	if !idempotent {
		s.ofProducers = append(s.ofProducers, kgo.DisableIdempotentWrite())
		if inFlight > 0 {
			s.ofProducers = append(s.ofProducers, kgo.MaxProduceRequestsInflightPerBroker(inFlight))
		}
	}
	return idempotent, nil
}

func (s *settings) echo(client *kgo.Client, name string, asked json.RawMessage, idempotent bool) {
	knob, known := knobs[name]
	switch {
	case name == "idempotence":
		s.effective[name] = idempotent
	case name == "max_in_flight" && idempotent:
		s.effective[name] = 5
	case name == "max_in_flight":
		s.effective[name] = client.OptValue(kgo.MaxProduceRequestsInflightPerBroker)
	case !known:
		s.unsupported = append(s.unsupported, name)
		s.effective[name] = missing[name]
	case knob.read == nil:
		s.effective[name] = asked
	default:
		s.effective[name] = knob.read(client)
	}
}

func (s *settings) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(s.all[:len(s.all):len(s.all)], more...)...)
}

func (s *settings) newProducer() (*kgo.Client, error) {
	return s.client(s.ofProducers...)
}

// A consumer without an assignment.
func (s *settings) newConsumer(more ...kgo.Opt) (*kgo.Client, error) {
	return s.client(append(s.ofConsumers[:len(s.ofConsumers):len(s.ofConsumers)], more...)...)
}

// Options that make a consumer a member of a new group.
func (s *settings) groupOpts() []kgo.Opt {
	group := kgo.ConsumerGroup("weir-" + rand.Text())
	return append(s.ofGroups[:len(s.ofGroups):len(s.ofGroups)], group)
}

func parsed[T any](value json.RawMessage) (T, error) {
	var parsed T
	err := json.Unmarshal(value, &parsed)
	return parsed, err
}

func ofProducer[T any](option func(T) kgo.Opt) func(*settings, json.RawMessage) error {
	return func(s *settings, value json.RawMessage) error {
		asked, err := parsed[T](value)
		s.ofProducers = append(s.ofProducers, option(asked))
		return err
	}
}

func ofConsumer[T any](option func(T) kgo.Opt) func(*settings, json.RawMessage) error {
	return func(s *settings, value json.RawMessage) error {
		asked, err := parsed[T](value)
		s.ofConsumers = append(s.ofConsumers, option(asked))
		return err
	}
}

func acksOf(number int) kgo.Acks {
	switch number {
	case 0:
		return kgo.NoAck()
	case 1:
		return kgo.LeaderAck()
	}
	return kgo.AllISRAcks()
}

func acksNumber(acks kgo.Acks) int {
	switch acks {
	case kgo.NoAck():
		return 0
	case kgo.LeaderAck():
		return 1
	}
	return -1
}

func milliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}

func inMilliseconds(duration any) float64 {
	return float64(duration.(time.Duration)) / float64(time.Millisecond)
}
