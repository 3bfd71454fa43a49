package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Sends each record of a topic to another one, with the reused producer.
func (d *driver) copy(cmd *command, answer answer) error {
	r, err := newReading(cmd)
	if err != nil {
		return err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), cmd.timeout())
	defer cancel()
	producer, err := d.warm(ctx, cmd.To)
	if err != nil {
		return err
	}
	delivery := expect(cmd.Count)
	r.sink = func(record *kgo.Record) {
		copied := &kgo.Record{Topic: cmd.To, Key: record.Key, Value: record.Value}
		producer.Produce(ctx, copied, delivery.report)
	}
	var t1 int64
	err = r.run(d.settings, cmd.timeout()-time.Since(begin), func(context.Context, *kgo.Client) error {
		t1 = now()
		return delivery.wait(ctx, producer)
	})
	if err != nil {
		d.producer.close()
		return err
	}
	answer["marks"] = map[string]int64{
		"s0": r.s0.at, "s1": r.s1.Load(), "s2": r.s2.at, "t1": t1, "t2": max(r.s2.at, delivery.last.at),
	}
	answer["cpu_us"] = max(0, delivery.last.cpu-r.s0.cpu)
	answer["copy_cpu_us"] = max(0, delivery.last.cpu-r.s2.cpu)
	answer["got"], answer["bytes"], answer["bad"] = r.got, r.bytes, r.bad
	delivery.echo(cmd.Count, answer)
	return nil
}
