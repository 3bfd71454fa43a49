package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Totals and the current second; a goroutine reports each second when it ends.
type seconds struct {
	id       json.RawMessage
	count    int
	start    mark
	mutex    sync.Mutex
	reported int
	cpu      int64
	records  int64
	bytes    int64
	all      struct{ records, bytes int64 }
	stop     chan struct{}
	stopped  chan struct{}
}

func startSeconds(cmd *command) *seconds {
	s := &seconds{id: cmd.ID, count: cmd.Seconds, stop: make(chan struct{}), stopped: make(chan struct{}), start: begin()}
	s.cpu = s.start.cpu
	go s.watch()
	return s
}

// Reports all seconds except the last one, which ends with the command.
func (s *seconds) watch() {
	defer close(s.stopped)
	for second := 1; second < s.count; second++ {
		select {
		case <-time.After(time.Duration(s.start.at + int64(second)*int64(time.Second) - now())):
			s.report()
		case <-s.stop:
			return
		}
	}
}

func (s *seconds) add(records, bytes int) {
	s.mutex.Lock()
	s.records += int64(records)
	s.bytes += int64(bytes)
	s.mutex.Unlock()
}

func (s *seconds) report() {
	cpu := cpuMicros()
	s.mutex.Lock()
	line := answer{"event": "second", "second": s.reported, "records": s.records, "bytes": s.bytes, "cpu_us": cpu - s.cpu, "id": s.id}
	s.all.records += s.records
	s.all.bytes += s.bytes
	s.cpu, s.records, s.bytes = cpu, 0, 0
	s.reported++
	s.mutex.Unlock()
	say(line)
}

// The end of the time.
func (s *seconds) end() time.Duration {
	return time.Duration(s.start.at + int64(s.count)*int64(time.Second) - now())
}

// Stops the reporting without the last second.
func (s *seconds) abandon() {
	close(s.stop)
	<-s.stopped
}

func (s *seconds) finish(answer answer) {
	<-s.stopped
	for s.reported < s.count {
		s.report()
	}
	answer["records"], answer["bytes"], answer["cpu_us"] = s.all.records, s.all.bytes, s.cpu-s.start.cpu
}

func (d *driver) steady(cmd *command, answer answer) error {
	switch cmd.Role {
	case "produce":
		return d.steadyProduce(cmd, answer)
	case "consume":
		return d.steadyConsume(cmd, answer)
	}
	return fmt.Errorf("unknown role %q", cmd.Role)
}

func (d *driver) steadyProduce(cmd *command, answer answer) error {
	if cmd.Rate <= 0 {
		return errors.New(`"rate" is not above 0`)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmd.timeout())
	defer cancel()
	value, count := makeValue(cmd.Len, cmd.Seed), int(cmd.Rate*float64(cmd.Seconds))
	delivery, latency, pacing := expect(count), new(distribution), new(distribution)
	client, err := d.warm(ctx, cmd.Topic)
	if err != nil {
		return err
	}
	s := startSeconds(cmd)
	ordinal := int64(0)
	err = pace(s.start.at, cmd.Rate, count, pacing, func(due int64) error {
		record := &kgo.Record{Topic: cmd.Topic, Key: makeKey(ordinal), Value: value}
		ordinal++
		client.Produce(ctx, record, func(record *kgo.Record, err error) {
			if err == nil {
				latency.record(now() - due)
			}
			delivery.report(record, err)
		})
		s.add(1, 8+len(value))
		return ctx.Err()
	})
	if err == nil {
		err = delivery.wait(ctx, client)
	}
	if err != nil {
		s.abandon()
		d.producer.close()
		return err
	}
	time.Sleep(s.end())
	s.finish(answer)
	answer["failed"], answer["latency"], answer["pacing"] = delivery.failed.Load(), latency.json(), pacing.json()
	return nil
}

func (d *driver) steadyConsume(cmd *command, answer answer) error {
	client, err := d.settings.newConsumer(kgo.ConsumePartitions(fromStart(cmd.Topic)))
	if err != nil {
		return err
	}
	defer client.Close()
	s := startSeconds(cmd)
	ctx, cancel := context.WithTimeout(context.Background(), s.end())
	defer cancel()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		records, bytes := 0, 0
		for all := fetches.RecordIter(); !all.Done(); {
			record := all.Next()
			if number(record.Key) != primer {
				records++
				bytes += len(record.Key) + len(record.Value)
			}
		}
		s.add(records, bytes)
	}
	s.finish(answer)
	answer["failed"] = 0
	return nil
}
