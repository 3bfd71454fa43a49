// Driver of franz-go. It executes one JSON command per line of standard input and writes one
// response per line to standard output. The protocol is in docs/drivers.md.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

var capabilities = []string{
	"produce.cold", "produce.metadata", "produce.warm", "consume.group", "consume.assign",
	"copy.group", "copy.assign", "roundtrip.burst", "roundtrip.open", "steady.produce",
	"steady.consume",
}

// A command's fields; each command uses some.
type command struct {
	ID         json.RawMessage            `json:"id"`
	Op         string                     `json:"op"`
	TimeoutMs  int64                      `json:"timeout_ms"`
	Protocol   int                        `json:"protocol"`
	Bootstrap  string                     `json:"bootstrap"`
	ClientFile string                     `json:"client_file"`
	Settings   map[string]json.RawMessage `json:"settings"`
	Topic      string                     `json:"topic"`
	Len        int                        `json:"len"`
	Count      int                        `json:"count"`
	Seed       uint64                     `json:"seed"`
	State      string                     `json:"state"`
	PerRecord  bool                       `json:"per_record"`
	Via        string                     `json:"via"`
	To         string                     `json:"to"`
	Verify     bool                       `json:"verify"`
	Commit     bool                       `json:"commit"`
	Rate       float64                    `json:"rate"`
	Role       string                     `json:"role"`
	Seconds    int                        `json:"seconds"`
}

func (c *command) check() error {
	for name, figure := range map[string]float64{
		"len": float64(c.Len), "count": float64(c.Count), "seconds": float64(c.Seconds), "rate": c.Rate,
	} {
		if figure < 0 || figure > 1<<30 {
			return fmt.Errorf("%q is not from 0 to %d", name, 1<<30)
		}
	}
	switch c.Op {
	case "warmup", "produce", "consume", "copy", "roundtrip", "steady":
		if c.Topic == "" {
			return errors.New(`the command lacks "topic"`)
		}
	}
	if c.Op == "copy" && c.To == "" {
		return errors.New(`the command lacks "to"`)
	}
	return nil
}

// Four fifths of the timeout, because an error is better than being killed.
func (c *command) timeout() time.Duration {
	if c.TimeoutMs <= 0 {
		return 48 * time.Second
	}
	return time.Duration(c.TimeoutMs) * 800 * time.Microsecond
}

type answer map[string]any

type driver struct {
	settings *settings
	producer producer
}

var lines sync.Mutex

// Writes one line.
func say(line answer) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // all values are numbers and texts
	}
	lines.Lock()
	defer lines.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func main() {
	commands := make(chan []byte, 64)
	idle := make(chan struct{})
	go read(commands, idle)
	var driver driver
	for line := range commands {
		if !driver.obey(line) {
			break
		}
	}
	close(idle)
}

// Forwards every line. After the end of the input the process exits within 1.5 s.
func read(commands chan<- []byte, idle <-chan struct{}) {
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadBytes('\n')
		if len(line) > 0 {
			commands <- line
		}
		if err == io.EOF {
			break
		} else if err != nil {
			fmt.Fprintln(os.Stderr, "standard input:", err)
			break
		}
	}
	close(commands)
	select {
	case <-idle:
	case <-time.After(1500 * time.Millisecond):
	}
	os.Exit(0)
}

// Responds to one command. Returns false after the last one.
func (d *driver) obey(line []byte) bool {
	if strings.TrimSpace(string(line)) == "" {
		return true
	}
	var cmd command
	answer := answer{}
	err := json.Unmarshal(line, &cmd)
	if err != nil {
		err = fmt.Errorf("no command: %w", err)
	} else if err = cmd.check(); err == nil {
		answer["ok"] = true
		err = d.run(&cmd, answer)
	}
	if err != nil {
		clear(answer)
		answer["ok"], answer["error"] = false, firstLine(err)
	}
	answer["id"] = nil
	if len(cmd.ID) > 0 {
		answer["id"] = cmd.ID
	}
	say(answer)
	return cmd.Op != "bye"
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (d *driver) run(cmd *command, answer answer) error {
	switch cmd.Op {
	case "hello":
		return hello(cmd, answer)
	case "configure":
		return d.configure(cmd, answer)
	case "gc":
		runtime.GC()
		return nil
	case "stats":
		return stats(answer)
	case "bye":
		d.producer.close()
		return nil
	}
	if run, known := commands[cmd.Op]; known {
		if d.settings == nil {
			return errors.New("configure comes first")
		}
		return run(d, cmd, answer)
	}
	return fmt.Errorf("unknown op %q", cmd.Op)
}

var commands = map[string]func(*driver, *command, answer) error{
	"warmup":    (*driver).warmup,
	"produce":   (*driver).produce,
	"consume":   (*driver).consume,
	"copy":      (*driver).copy,
	"roundtrip": (*driver).roundtrip,
	"steady":    (*driver).steady,
}

func hello(cmd *command, answer answer) error {
	if cmd.Protocol != 1 {
		return errors.New("this driver speaks protocol 1")
	}
	answer["protocol"] = 1
	answer["library"] = "franz-go"
	answer["library_version"] = libraryVersion()
	answer["binding"] = ""
	answer["runtime"] = fmt.Sprintf("%s, GOMAXPROCS %d, GOGC %s", runtime.Version(), runtime.GOMAXPROCS(0), gcPercent())
	answer["capabilities"] = capabilities
	return nil
}

func gcPercent() string {
	if percent := os.Getenv("GOGC"); percent != "" {
		return percent
	}
	return "100"
}

// From the build information of this program.
func libraryVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/twmb/franz-go" {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "unknown"
}

func (d *driver) configure(cmd *command, answer answer) error {
	d.producer.close()
	client, err := readClientFile(cmd.ClientFile)
	if err != nil {
		return err
	}
	settings, err := newSettings(cmd.Bootstrap, client, cmd.Settings)
	if err != nil {
		return err
	}
	d.settings = settings
	answer["effective"], answer["unsupported"] = settings.effective, settings.unsupported
	answer["client_file"] = cmd.ClientFile != ""
	return nil
}
