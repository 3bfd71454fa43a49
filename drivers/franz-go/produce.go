package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The producer that is reused across commands, and the topic to which it has delivered a primer.
type producer struct {
	kept   *kgo.Client
	primed string
}

func (p *producer) close() {
	if p.kept != nil {
		p.kept.Close()
	}
	*p = producer{}
}

// Counts the delivery reports of a command; the library calls it from one goroutine at a time.
type delivery struct {
	missing atomic.Int64
	failed  atomic.Int64
	errors  []string
	last    mark
	done    chan struct{}
}

func expect(count int) *delivery {
	d := &delivery{done: make(chan struct{}), errors: []string{}}
	d.missing.Store(int64(count))
	if count == 0 {
		d.finish()
	}
	return d
}

func (d *delivery) report(_ *kgo.Record, err error) {
	if err != nil {
		d.failed.Add(1)
		if text := firstLine(err); len(d.errors) < 5 && !slices.Contains(d.errors, text) {
			d.errors = append(d.errors, text)
		}
	}
	if d.missing.Add(-1) == 0 {
		d.finish()
	}
}

func (d *delivery) finish() {
	d.last = end()
	close(d.done)
}

// Ends the linger and waits for the last report.
func (d *delivery) wait(ctx context.Context, client *kgo.Client) error {
	flushed := client.Flush(ctx)
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%d delivery reports did not come in time", d.missing.Load()), flushed)
	}
}

func (d *delivery) echo(count int, answer answer) {
	failed := d.failed.Load()
	answer["acked"], answer["failed"], answer["errors"] = int64(count)-failed, failed, d.errors
}

// A burst: its records and measurements.
type burst struct {
	*command
	value    []byte
	keys     []byte
	delivery *delivery
	t0       mark
	t1       int64
	create   int64
	send     int64
}

func newBurst(cmd *command) *burst {
	return &burst{command: cmd, value: makeValue(cmd.Len, cmd.Seed), keys: makeKeys(cmd.Count), delivery: expect(cmd.Count)}
}

func (b *burst) record(i int) *kgo.Record {
	return &kgo.Record{Topic: b.Topic, Key: b.keys[8*i : 8*i+8 : 8*i+8], Value: b.value}
}

func (b *burst) run(ctx context.Context, client *kgo.Client) error {
	if b.PerRecord {
		b.sendTimed(ctx, client)
	} else {
		for i := range b.Count {
			client.Produce(ctx, b.record(i), b.delivery.report)
		}
	}
	b.t1 = now()
	return b.delivery.wait(ctx, client)
}

func (b *burst) sendTimed(ctx context.Context, client *kgo.Client) {
	for i := range b.Count {
		begin := now()
		record := b.record(i)
		made := now()
		client.Produce(ctx, record, b.delivery.report)
		b.send += now() - made
		b.create += made - begin
	}
}

func (b *burst) cpu() int64 {
	return max(0, b.delivery.last.cpu-b.t0.cpu)
}

func (d *driver) produce(cmd *command, answer answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmd.timeout())
	defer cancel()
	b := newBurst(cmd)
	var err error
	switch cmd.State {
	case "cold":
		err = b.inNewProducer(ctx, d.settings, false)
	case "metadata":
		err = b.inNewProducer(ctx, d.settings, true)
	case "warm":
		err = b.inKeptProducer(ctx, d)
	default:
		err = fmt.Errorf("unknown state %q", cmd.State)
	}
	if err != nil {
		return err
	}
	answer["marks"] = map[string]int64{"t0": b.t0.at, "t1": b.t1, "t2": max(b.t0.at, b.delivery.last.at)}
	answer["cpu_us"] = b.cpu()
	b.delivery.echo(cmd.Count, answer)
	if cmd.PerRecord {
		answer["create_us"], answer["send_us"] = b.create/1000, b.send/1000
	}
	return nil
}

func (b *burst) inNewProducer(ctx context.Context, settings *settings, askFirst bool) error {
	b.t0 = begin()
	client, err := settings.newProducer()
	if err != nil {
		return err
	}
	defer client.Close()
	if askFirst {
		if err := askMetadata(ctx, client, b.Topic); err != nil {
			return err
		}
		b.t0 = begin()
	}
	return b.run(ctx, client)
}

func (b *burst) inKeptProducer(ctx context.Context, d *driver) error {
	client, err := d.warm(ctx, b.Topic)
	if err != nil {
		return err
	}
	b.t0 = begin()
	if err := b.run(ctx, client); err != nil {
		d.producer.close()
		return err
	}
	return nil
}

// The library requests a topic's metadata when it gets the first record for it. This record is for
// a partition that does not exist, so the library rejects it once it has the metadata.
func askMetadata(ctx context.Context, client *kgo.Client, topic string) error {
	refused := make(chan error, 1)
	client.Produce(ctx, &kgo.Record{Topic: topic, Partition: math.MaxInt32}, func(_ *kgo.Record, err error) {
		refused <- err
	})
	select {
	case err := <-refused:
		if leader, _, _ := client.PartitionLeader(topic, 0); leader < 0 {
			return fmt.Errorf("no metadata: %w", err)
		}
		return nil
	case <-ctx.Done():
		return errors.New("no metadata in time")
	}
}

// Returns the reused producer, which has delivered a primer to the topic. It drops the previous
// topic, whose metadata it would otherwise request repeatedly, even after its deletion.
func (d *driver) warm(ctx context.Context, topic string) (*kgo.Client, error) {
	if d.producer.kept == nil {
		client, err := d.settings.newProducer()
		if err != nil {
			return nil, err
		}
		d.producer.kept = client
	}
	if topic == d.producer.primed {
		return d.producer.kept, nil
	}
	if d.producer.primed != "" {
		d.producer.kept.PurgeTopicsFromProducing(d.producer.primed)
	}
	if err := prime(ctx, d.producer.kept, topic); err != nil {
		d.producer.close()
		return nil, err
	}
	d.producer.primed = topic
	return d.producer.kept, nil
}

func prime(ctx context.Context, client *kgo.Client, topic string) error {
	record := &kgo.Record{Topic: topic, Key: makeKey(primer), Value: []byte{0}}
	delivered := make(chan error, 1)
	client.Produce(ctx, record, func(_ *kgo.Record, err error) { delivered <- err })
	// No linger.
	flushed := client.Flush(ctx)
	select {
	case err := <-delivered:
		if err != nil {
			return fmt.Errorf("the primer was not delivered: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the primer was not delivered: %w", errors.Join(ctx.Err(), flushed))
	}
}

func (d *driver) warmup(cmd *command, answer answer) error {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), cmd.timeout())
	defer cancel()
	b := newBurst(cmd)
	if err := b.inKeptProducer(ctx, d); err != nil {
		return err
	}
	if failed := b.delivery.failed.Load(); failed > 0 {
		return fmt.Errorf("%d records of the warm-up failed: %s", failed, b.delivery.errors[0])
	}
	r := reading{command: cmd}
	if err := r.run(d.settings, cmd.timeout()-time.Since(begin), r.commit); err != nil {
		return err
	}
	records := float64(max(1, cmd.Count))
	answer["produce_cpu_us_per_record"] = float64(b.cpu()) / records
	answer["consume_cpu_us_per_record"] = float64(r.s3.cpu-r.s0.cpu) / records
	return nil
}
