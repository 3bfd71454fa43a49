// A Kafka client with segmentio/kafka-go: writes and reads through the given brokers.
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
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
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
	client := &kafka.Client{Addr: kafka.TCP(bootstrap), Transport: transport}
	transact(ctx, client, topic, id)
	values := consume(ctx, bootstrap, topic, group, count+1)
	brokers := addresses(ctx, client)
	line, err := json.Marshal(map[string]any{"values": values, "brokers": brokers})
	check("result", err)
	fmt.Println(string(line))
}

// Connections of all clients; without values, those of the library.
var (
	transport kafka.RoundTripper
	dialer    *kafka.Dialer
)

// Lets all clients use TLS, with the name of the broker as server name.
func useTLS(settings string) {
	var parsed struct{ Cafile, Resolve string }
	check("settings", json.Unmarshal([]byte(settings), &parsed))
	pem, err := os.ReadFile(parsed.Cafile)
	check("cafile", err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: trusted}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(parsed.Resolve, port))
	}
	transport = &kafka.Transport{TLS: config, Dial: dial}
	dialer = &kafka.Dialer{TLS: config, DialFunc: dial, Timeout: 10 * time.Second}
}

// Writes the records with all codecs in turn, and "committed" without one.
func produce(ctx context.Context, bootstrap, topic string, count int) {
	codecs := []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd}
	for number, codec := range codecs {
		// By default, a writer does not wait for acknowledgements.
		writer := &kafka.Writer{
			Addr: kafka.TCP(bootstrap), Topic: topic, Compression: codec,
			RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond, BatchSize: 7,
			Transport: transport,
		}
		messages := []kafka.Message{}
		for value := number; value < count; value += len(codecs) {
			messages = append(messages, kafka.Message{Value: []byte(fmt.Sprintf("value-%06d", value))})
		}
		if codec == 0 {
			messages = append(messages, kafka.Message{Value: []byte("committed")})
		}
		check("produce", writer.WriteMessages(ctx, messages...))
		check("close", writer.Close())
	}
}

// Runs the requests of a transaction. The library cannot write the records of one.
func transact(ctx context.Context, client *kafka.Client, topic, id string) {
	begun := initialise(ctx, client, id)
	producer, epoch := begun.Producer.ProducerID, begun.Producer.ProducerEpoch
	added, err := client.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{
		TransactionalID: id, ProducerID: producer, ProducerEpoch: epoch,
		Topics: map[string][]kafka.AddPartitionToTxn{topic: {{Partition: 0}}},
	})
	check("add partitions", err)
	for _, partition := range added.Topics[topic] {
		check("add partitions", partition.Error)
	}
	ended, err := client.EndTxn(ctx, &kafka.EndTxnRequest{
		TransactionalID: id, ProducerID: producer, ProducerEpoch: epoch, Committed: true,
	})
	check("end", err)
	check("end", ended.Error)
}

// Returns a producer id. The coordinator may have to load its state first.
func initialise(ctx context.Context, client *kafka.Client, id string) *kafka.InitProducerIDResponse {
	for {
		begun, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: id, TransactionTimeoutMs: 30_000})
		check("init producer id", err)
		var code kafka.Error
		if begun.Error == nil || !errors.As(begun.Error, &code) || !code.Temporary() {
			check("init producer id", begun.Error)
			return begun
		}
	}
}

func consume(ctx context.Context, bootstrap, topic, group string, count int) []string {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, Topic: topic, GroupID: group, StartOffset: kafka.FirstOffset,
		IsolationLevel: kafka.ReadCommitted, MaxWait: 200 * time.Millisecond,
		Dialer: dialer,
	})
	values := []string{}
	for len(values) < count {
		message, err := reader.FetchMessage(ctx)
		check("fetch", err)
		// The library returns the markers at the end of transactions, too. Only they have a key.
		if message.Key == nil {
			values = append(values, string(message.Value))
		}
		check("commit", reader.CommitMessages(ctx, message))
	}
	check("close", reader.Close())
	return values
}

// Returns the brokers in the Metadata response.
func addresses(ctx context.Context, client *kafka.Client) []string {
	answer, err := client.Metadata(ctx, &kafka.MetadataRequest{})
	check("metadata", err)
	all := []string{}
	for _, broker := range answer.Brokers {
		all = append(all, fmt.Sprintf("%s:%d", broker.Host, broker.Port))
	}
	return all
}
