package main

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A reading of a topic from its start.
type reading struct {
	*command
	viaGroup bool
	// The expected value, if values are compared.
	value []byte
	// Gets each record, if records are not only read.
	sink   func(*kgo.Record)
	s0     mark
	s1     atomic.Int64
	s2, s3 mark
	s4     int64
	got    int
	bytes  int64
	bad    int
}

func newReading(cmd *command) (*reading, error) {
	if cmd.Via != "group" && cmd.Via != "assign" {
		return nil, fmt.Errorf("unknown via %q", cmd.Via)
	}
	return &reading{command: cmd, viaGroup: cmd.Via == "group"}, nil
}

func (d *driver) consume(cmd *command, answer answer) error {
	r, err := newReading(cmd)
	if err != nil {
		return err
	}
	if cmd.Verify {
		r.value = makeValue(cmd.Len, cmd.Seed)
	}
	if err := r.run(d.settings, cmd.timeout(), r.commit); err != nil {
		return err
	}
	marks := map[string]int64{"s0": r.s0.at, "s1": r.s1.Load(), "s2": r.s2.at, "s3": r.s3.at}
	if cmd.Commit {
		marks["s4"] = r.s4
	}
	answer["marks"] = marks
	answer["cpu_us"], answer["drain_cpu_us"] = r.s3.cpu-r.s0.cpu, r.s3.cpu-r.s2.cpu
	answer["got"], answer["bytes"], answer["bad"] = r.got, r.bytes, r.bad
	return nil
}

// Reads all records. `finish` is called with the open client after the last one.
func (r *reading) run(settings *settings, timeout time.Duration, finish func(context.Context, *kgo.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var opts []kgo.Opt
	if r.viaGroup {
		// A member without topics joins when it gets its first topic.
		opts = append(settings.groupOpts(), kgo.OnPartitionsAssigned(r.assigned))
	}
	client, err := settings.newConsumer(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	r.s0 = begin()
	if r.viaGroup {
		client.AddConsumeTopics(r.Topic)
	} else {
		client.AddConsumePartitions(fromStart(r.Topic))
		r.s1.Store(now())
	}
	for r.got < r.Count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("only %d of %d records came in time", r.got, r.Count)
		}
		if err := fetches.Err0(); err != nil {
			return err
		}
		r.take(fetches)
	}
	return finish(ctx, client)
}

func fromStart(topic string) map[string]map[int32]kgo.Offset {
	return map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}
}

func (r *reading) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	if len(partitions) > 0 {
		r.s1.CompareAndSwap(0, now())
	}
}

func (r *reading) take(fetches kgo.Fetches) {
	for records := fetches.RecordIter(); !records.Done(); {
		record := records.Next()
		key := number(record.Key)
		if key == primer {
			continue
		}
		if r.got == 0 {
			r.s2 = end()
		}
		r.check(key, record)
		if r.sink != nil {
			r.sink(record)
		}
		if r.got++; r.got == r.Count {
			r.s3 = end()
			return
		}
	}
}

func (r *reading) check(key int64, record *kgo.Record) {
	value := record.Value
	if key != int64(r.got) || len(value) != r.Len || r.value != nil && !bytes.Equal(value, r.value) {
		r.bad++
	}
	r.bytes += int64(len(record.Key) + len(value))
}

func (r *reading) commit(ctx context.Context, client *kgo.Client) error {
	if !r.Commit {
		return nil
	}
	if !r.viaGroup {
		return fmt.Errorf("this library commits in a group only")
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return err
	}
	r.s4 = now()
	return nil
}
