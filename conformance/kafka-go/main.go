// A Kafka client with franz-go: writes and reads through the given brokers.
//
//	driver BOOTSTRAP TOPIC GROUP TRANSACTIONAL_ID COUNT [SETTINGS]
//
// The topic must exist and be empty. SETTINGS is a JSON object: with "cafile", a file of trusted CAs, the client uses
// TLS, and all host names have the address "resolve". Prints one line of JSON; exits with 1 and an error on any failure.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func check(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) != 6 && len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "driver BOOTSTRAP TOPIC GROUP TRANSACTIONAL_ID COUNT [SETTINGS]")
		os.Exit(2)
	}
	if len(os.Args) == 7 {
		useTLS(os.Args[6])
	}
	bootstrap, topic, group, id := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	count, err := strconv.Atoi(os.Args[5])
	check("count", err)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()

	produce(ctx, bootstrap, topic, count)
	transact(ctx, bootstrap, topic, id)
	values := consume(ctx, bootstrap, topic, group, count+1)
	brokers := addresses(ctx, bootstrap)
	line, err := json.Marshal(map[string]any{"values": values, "brokers": brokers})
	check("result", err)
	fmt.Println(string(line))
}

// Options of all clients.
var common []kgo.Opt

// Lets all clients use TLS, with the name of the broker as server name.
func useTLS(settings string) {
	var parsed struct{ Cafile, Resolve string }
	check("settings", json.Unmarshal([]byte(settings), &parsed))
	pem, err := os.ReadFile(parsed.Cafile)
	check("cafile", err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	common = append(common, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: name}}
		return dialer.DialContext(ctx, network, net.JoinHostPort(parsed.Resolve, port))
	}))
}

func newClient(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, common...)...)
}

// Writes every record as a separate batch, with all codecs in turn.
func produce(ctx context.Context, bootstrap, topic string, count int) {
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	for number, codec := range codecs {
		client, err := newClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec))
		check("producer", err)
		for value := number; value < count; value += len(codecs) {
			record := kgo.StringRecord(fmt.Sprintf("value-%06d", value))
			client.Produce(ctx, record, func(_ *kgo.Record, err error) { check("produce", err) })
		}
		check("flush", client.Flush(ctx))
		client.Close()
	}
}

// Runs one aborted and one committed transaction.
func transact(ctx context.Context, bootstrap, topic, id string) {
	client, err := newClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.TransactionalID(id))
	check("transactional producer", err)
	defer client.Close()
	for value, end := range map[string]kgo.TransactionEndTry{"aborted": kgo.TryAbort, "committed": kgo.TryCommit} {
		check("begin", client.BeginTransaction())
		check("produce", client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
		check("end", client.EndTransaction(ctx, end))
	}
}

func consume(ctx context.Context, bootstrap, topic, group string, count int) []string {
	client, err := newClient(
		kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	check("consumer", err)
	defer client.Close()
	values := []string{}
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		check("poll", fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	check("commit", client.CommitUncommittedOffsets(ctx))
	return values
}

// Returns the brokers in the Metadata response.
func addresses(ctx context.Context, bootstrap string) []string {
	client, err := newClient(kgo.SeedBrokers(bootstrap))
	check("client", err)
	defer client.Close()
	answer, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	check("metadata", err)
	all := []string{}
	for _, broker := range answer.Brokers {
		all = append(all, fmt.Sprintf("%s:%d", broker.Host, broker.Port))
	}
	return all
}
