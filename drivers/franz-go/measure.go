package main

import (
	"encoding/binary"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The key of a primer.
const primer = -1

var start = time.Now()

// Nanoseconds since the start of the program, by the monotonic clock.
func now() int64 {
	return int64(time.Since(start))
}

// CPU time of the whole process in microseconds.
func cpuMicros() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // cannot fail for this process
	}
	return usage.Utime.Nano()/1000 + usage.Stime.Nano()/1000
}

// A time and the CPU time by then.
type mark struct {
	at  int64
	cpu int64
}

// A start mark: the clock is read last.
func begin() mark {
	cpu := cpuMicros()
	return mark{now(), cpu}
}

// An end mark: the clock is read first.
func end() mark {
	at := now()
	return mark{at, cpuMicros()}
}

// The output of SplitMix64, little endian.
func makeValue(length int, seed uint64) []byte {
	value := make([]byte, (length+7)/8*8)
	for at := 0; at < length; at += 8 {
		seed += 0x9e3779b97f4a7c15
		word := seed
		word = (word ^ word>>30) * 0xbf58476d1ce4e5b9
		word = (word ^ word>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(value[at:], word^word>>31)
	}
	return value[:length:length]
}

// The keys 0, 1, 2, ..., concatenated.
func makeKeys(count int) []byte {
	keys := make([]byte, 0, count*8)
	for ordinal := range count {
		keys = binary.BigEndian.AppendUint64(keys, uint64(ordinal))
	}
	return keys
}

func makeKey(number int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(number))
}

// Returns the number of a key; a key without a number gives a value that matches none.
func number(key []byte) int64 {
	if len(key) != 8 {
		return -1 << 63
	}
	return int64(binary.BigEndian.Uint64(key))
}

// A distribution of microseconds: exact below 1,000, three significant decimal digits above.
type distribution struct {
	counts [1000 + 900*13]uint64
	count  uint64
	sum    uint64
	least  uint64
	most   uint64
}

func (d *distribution) record(nanos int64) {
	value := uint64(max(0, nanos)) / 1000
	d.counts[place(value)]++
	if d.count == 0 || value < d.least {
		d.least = value
	}
	d.most = max(d.most, value)
	d.count++
	d.sum += value
}

// Half a unit rounds up; 9,995 is the first of the next decade.
func place(value uint64) uint64 {
	if value < 1000 {
		return value
	}
	unit, first := uint64(10), uint64(1000)
	for value/unit >= 1000 {
		unit *= 10
		first += 900
	}
	return first + (value+unit/2)/unit - 100
}

func valueAt(place uint64) uint64 {
	if place < 1000 {
		return place
	}
	value := 100 + (place-1000)%900
	for range (place-1000)/900 + 1 {
		value *= 10
	}
	return value
}

func (d *distribution) json() answer {
	pairs := [][2]uint64{}
	for place, count := range d.counts {
		if count > 0 {
			pairs = append(pairs, [2]uint64{valueAt(uint64(place)), count})
		}
	}
	return answer{"count": d.count, "sum_us": d.sum, "min_us": d.least, "max_us": d.most, "pairs": pairs}
}

// Calls at absolute times: a late call is made at once, and no call is skipped. Call i is due at
// begin + i / rate; pacing records the delay of each.
func pace(begin int64, rate float64, count int, pacing *distribution, call func(due int64) error) error {
	for i := range count {
		due := begin + int64(float64(i)*1e9/rate)
		at := now()
		for ; at < due; at = now() {
			time.Sleep(time.Duration(due - at))
		}
		pacing.record(at - due)
		if err := call(due); err != nil {
			return err
		}
	}
	return nil
}

func stats(answer answer) error {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	answer["heap_kb"] = memory.HeapAlloc / 1024
	answer["rss_kb"], answer["threads"] = nil, nil
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil // not available on this system
	}
	for name, word := range map[string]string{"rss_kb": "VmRSS:", "threads": "Threads:"} {
		_, rest, found := strings.Cut(string(text), word)
		if fields := strings.Fields(rest); found && len(fields) > 0 {
			if figure, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
				answer[name] = figure
			}
		}
	}
	return nil
}
