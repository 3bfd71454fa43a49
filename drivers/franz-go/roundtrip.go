package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A producer and a consumer of the same topic in one process.
type roundtrip struct {
	*command
	value    []byte
	delivery *delivery
	pacing   distribution
	primed   chan struct{}
	// Results of the reader; others read them when it is done.
	latency distribution
	got     int
	last    mark
	read    chan error
}

func (d *driver) roundtrip(cmd *command, answer answer) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmd.timeout())
	defer cancel()
	r := &roundtrip{
		command: cmd, value: makeValue(cmd.Len, cmd.Seed), delivery: expect(cmd.Count),
		primed: make(chan struct{}), read: make(chan error, 1),
	}
	consumer, err := d.settings.newConsumer(kgo.ConsumePartitions(fromStart(cmd.Topic)))
	if err != nil {
		return err
	}
	defer consumer.Close()
	producer, err := d.settings.newProducer()
	if err != nil {
		return err
	}
	defer producer.Close()
	go func() { r.read <- r.readAll(ctx, consumer) }()
	if err := prime(ctx, producer, cmd.Topic); err != nil {
		return err
	}
	select {
	case <-r.primed:
	case err := <-r.read:
		return errors.Join(errors.New("the consumer did not get the primer"), err)
	}
	return r.run(ctx, producer, answer)
}

func (r *roundtrip) run(ctx context.Context, client *kgo.Client, answer answer) error {
	t0 := begin()
	send := func(instant int64) error {
		record := &kgo.Record{Topic: r.Topic, Key: makeKey(instant), Value: r.value}
		client.Produce(ctx, record, r.delivery.report)
		return ctx.Err()
	}
	var err error
	if r.Rate > 0 {
		err = pace(t0.at, r.Rate, r.Count, &r.pacing, send)
	} else {
		for i := 0; i < r.Count && err == nil; i++ {
			err = send(now())
		}
	}
	t1 := now()
	if err != nil {
		return fmt.Errorf("not all records could be sent in time: %w", err)
	}
	if err := r.delivery.wait(ctx, client); err != nil {
		return err
	}
	if err := <-r.read; err != nil {
		return err
	}
	t2, r1 := r.delivery.last, r.last
	last := t2
	if r1.at > t2.at {
		last = r1
	}
	answer["marks"] = map[string]int64{"t0": t0.at, "t1": t1, "t2": max(t0.at, t2.at), "r1": max(t0.at, r1.at)}
	answer["cpu_us"] = max(0, last.cpu-t0.cpu)
	r.delivery.echo(r.Count, answer)
	answer["got"], answer["latency"], answer["pacing"] = r.got, r.latency.json(), r.pacing.json()
	return nil
}

func (r *roundtrip) readAll(ctx context.Context, client *kgo.Client) error {
	primed := false
	for !primed || r.got < r.Count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("only %d of %d records came back in time", r.got, r.Count)
		}
		if err := fetches.Err0(); err != nil {
			return err
		}
		for records := fetches.RecordIter(); !records.Done(); {
			key := number(records.Next().Key)
			if key != primer {
				r.latency.record(now() - key)
				r.got++
			} else if !primed {
				primed = true
				close(r.primed)
			}
		}
		if r.got >= r.Count {
			r.last = end()
		}
	}
	return nil
}
