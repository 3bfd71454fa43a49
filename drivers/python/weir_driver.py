"""Shared code of the Python drivers: protocol lines (docs/drivers.md), values and measurements.

It does not depend on a client library."""

import gc
import json
import os
import platform
import queue
import struct
import sys
import threading
from collections import Counter
from time import monotonic_ns, process_time_ns

START = monotonic_ns()
PRIMER = -1
PRIMER_VALUE = b"\0"
_MASK = (1 << 64) - 1

# Libraries may print; standard output is for protocol lines only.
_output = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
_output_lock = threading.Lock()


def say(line):
    """Writes one line."""
    text = json.dumps(line, allow_nan=False)
    with _output_lock:
        _output.write(text + "\n")
        _output.flush()


class Refused(Exception):
    """A command that failed, with the reason."""


BOOLEANS = ("idempotence", "check_crcs", "auto_commit")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def check_settings(asked, known):
    """Rejects values of another type, which a library may report at first use, or never."""
    if not isinstance(asked, dict):
        raise Refused('"settings" is no object')
    for name, value in asked.items():
        if name in BOOLEANS:
            right = isinstance(value, bool)
        elif name == "compression":
            right = value in CODECS
        else:
            right = isinstance(value, (int, float)) and not isinstance(value, bool)
        if name in known and not right:
            raise Refused(f"{name} cannot be {json.dumps(value)}")


def read_token(client):
    """Returns the token for OAUTHBEARER of a client file; None without one."""
    if "token_file" not in client:
        return None
    with open(client["token_file"], encoding="utf-8") as file:
        return file.read().strip()


class Command:
    """A command: its fields by name, and its deadline."""

    def __init__(self, fields):
        self.fields = fields
        timeout_ms = fields.get("timeout_ms")
        if not isinstance(timeout_ms, (int, float)):
            timeout_ms = 60_000
        # Four fifths of the timeout, because an error is better than being killed.
        self.deadline = monotonic_ns() + int(timeout_ms * 800_000)

    def get(self, name, kind=None):
        value = self.fields.get(name)
        if value is None:
            raise Refused(f'the command lacks "{name}"')
        if kind is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise Refused(f'"{name}" is of another type')
        return value

    def text(self, name):
        return self.get(name, str)

    def number(self, name):
        value = self.get(name, int)
        if not 0 <= value <= 1 << 53:
            raise Refused(f'"{name}" is not from 0 to 2^53')
        return value

    def client_file(self):
        """Returns the content of the file with encryption and login; empty without one."""
        path = self.fields.get("client_file")
        if path is None:
            return {}
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def rate(self):
        return self.get("rate", (int, float))

    def flag(self, name):
        return self.fields.get(name) is True

    def left(self):
        """Seconds until the deadline, 0 after it."""
        return max(0, self.deadline - monotonic_ns()) / 1e9

    def late(self):
        return monotonic_ns() >= self.deadline


def serve(hello, operations):
    """Answers commands until `bye` or the end of standard input."""
    lines = queue.Queue(64)
    idle = threading.Event()
    threading.Thread(target=_read, args=(lines, idle), daemon=True).start()
    operations = {"hello": lambda command: _hello(command, hello), "gc": _gc, "stats": _stats, **operations}
    while True:
        line = lines.get()
        if line is None or not _obey(line, operations):
            break
    idle.set()
    sys.stderr.flush()
    # Threads of the library would keep the process alive.
    os._exit(0)


def _read(lines, idle):
    """Queues every line. After the end of the input the process exits within 1.5 s."""
    for line in sys.stdin.buffer:
        lines.put(line)
    try:
        lines.put(None, timeout=1)
        idle.wait(1.5)
    finally:
        os._exit(0)


def _obey(line, operations):
    """Responds to one command. Returns False after the last one."""
    if not line.strip():
        return True
    number, op = None, None
    try:
        fields = _parsed(line)
        number, op = fields.get("id"), fields.get("op")
        if not isinstance(op, str) or op not in operations:
            raise Refused(f"unknown op {json.dumps(op)}")
        answer = {"id": number, "ok": True, **(operations[op](Command(fields)) or {})}
    except Refused as refused:
        answer = {"id": number, "ok": False, "error": str(refused)}
    except Exception as error:
        answer = {"id": number, "ok": False, "error": reason(error)}
    say(answer)
    return op != "bye"


def _parsed(line):
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise Refused(f"no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Refused("a command is an object")
    return fields


def reason(error):
    """Returns one sentence for an exception."""
    text = str(error).split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _hello(command, hello):
    if command.number("protocol") != 1:
        raise Refused("this driver speaks protocol 1")
    runtime = f"{platform.python_implementation()} {platform.python_version()}, gc thresholds {gc.get_threshold()}"
    return {"protocol": 1, **hello, "runtime": runtime}


def _gc(_command):
    gc.collect()


def _stats(_command):
    figures = {"rss_kb": None, "threads": None, "heap_kb": None}
    try:
        with open("/proc/self/status", encoding="utf-8") as status:
            fields = dict(line.split(":", 1) for line in status)
        figures["rss_kb"] = int(fields["VmRSS"].split()[0])
        figures["threads"] = int(fields["Threads"])
    except (OSError, KeyError, ValueError):
        pass  # not available on this system
    return figures


def make_value(length, seed):
    """The output of SplitMix64, little endian."""
    words, state = [], seed
    for _ in range((length + 7) // 8):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        word = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        word = ((word ^ word >> 27) * 0x94D049BB133111EB) & _MASK
        words.append(word ^ word >> 31)
    return struct.pack(f"<{len(words)}Q", *words)[:length]


make_key = struct.Struct(">q").pack
_read_key = struct.Struct(">q").unpack


def key_number(key):
    """Returns the number of a key; a key without a number gives a value that matches none."""
    return _read_key(key)[0] if key is not None and len(key) == 8 else None


class Mark:
    """A time and the CPU time of the process, in nanoseconds."""

    __slots__ = ("at", "cpu")

    def __init__(self, at, cpu):
        self.at, self.cpu = at, cpu

    @classmethod
    def begin(cls):
        """Start mark: the clock is read last."""
        cpu = process_time_ns()
        return cls(monotonic_ns(), cpu)

    @classmethod
    def end(cls):
        """End mark: the clock is read first."""
        at = monotonic_ns()
        return cls(at, process_time_ns())

    def cpu_us(self, begin):
        return max(0, (self.cpu - begin.cpu) // 1000)


def instants(**marks):
    """Returns marks for the response: nanoseconds since the start of the program."""
    return {name: at - START for name, at in marks.items()}


class Distribution:
    """A distribution of microseconds: exact below 1,000, three significant decimal digits above."""

    def __init__(self):
        self.counts = Counter()
        self.count = 0
        self.sum_us = 0
        self.least = None
        self.most = 0

    def add(self, nanos):
        """Records a list of nanoseconds."""
        for value, count in Counter(max(0, nano) // 1000 for nano in nanos).items():
            self.counts[_rounded(value)] += count
            self.sum_us += value * count
            self.count += count
            self.least = value if self.least is None else min(self.least, value)
            self.most = max(self.most, value)

    def json(self):
        figures = {"count": self.count, "sum_us": self.sum_us, "min_us": self.least or 0, "max_us": self.most}
        return {**figures, "pairs": sorted(self.counts.items())}


def _rounded(value):
    """Half a unit rounds up."""
    unit = 1
    while value // unit >= 1000:
        unit *= 10
    return (value + unit // 2) // unit * unit


class Delivery:
    """Counts the delivery reports of one command."""

    def __init__(self, expected):
        self.expected = self.missing = expected
        self.failed = 0
        self.errors = []
        self.last = Mark.end()

    def report(self, error=None):
        if error is not None:
            self.failed += 1
            text = str(error)
            if len(self.errors) < 5 and text not in self.errors:
                self.errors.append(text)
        self.missing -= 1
        if not self.missing:
            self.last = Mark.end()

    def check(self):
        """Fails if reports are missing."""
        if self.missing:
            why = f": {self.errors[0]}" if self.errors else ""
            came = self.expected - self.missing
            raise Refused(f"only {came} of {self.expected} delivery reports came in time{why}")

    def json(self):
        return {"acked": self.expected - self.failed, "failed": self.failed, "errors": self.errors}


class Burst:
    """A burst: its records and measurements."""

    def __init__(self, command):
        self.topic = command.text("topic")
        self.count = command.number("count")
        self.value = make_value(command.number("len"), command.number("seed"))
        self.keys = [make_key(ordinal) for ordinal in range(self.count)]
        self.per_record = command.flag("per_record")
        self.delivery = Delivery(self.count)
        self.t0 = None
        self.t1 = 0
        self.create_ns = 0
        self.send_ns = 0

    def cpu_us_per_record(self):
        return self.delivery.last.cpu_us(self.t0) / max(1, self.count)

    def json(self):
        t2 = max(self.t0.at, self.delivery.last.at)
        answer = {"marks": instants(t0=self.t0.at, t1=self.t1, t2=t2), "cpu_us": self.delivery.last.cpu_us(self.t0)}
        if self.per_record:
            answer.update(create_us=self.create_ns // 1000, send_us=self.send_ns // 1000)
        return {**answer, **self.delivery.json()}


class Reading:
    """A reading of a topic from its start: totals and marks."""

    def __init__(self, command, verify=False, commit=False):
        self.count = command.number("count")
        self.length = command.number("len")
        self.value = make_value(self.length, command.number("seed")) if verify else None
        self.with_commit = commit
        self.got = self.bytes = self.bad = 0
        self.s0 = self.s1 = self.s2 = self.s3 = self.s4 = None

    def assigned(self):
        if self.s1 is None:
            self.s1 = monotonic_ns()

    def take(self, key, value):
        """Counts a received record. Returns True for the last one."""
        number = key_number(key)
        if number == PRIMER:
            return False
        if self.s2 is None:
            self.s2 = Mark.end()
        size = 0 if value is None else len(value)
        if number != self.got or size != self.length or (self.value is not None and value != self.value):
            self.bad += 1
        self.bytes += size if key is None else len(key) + size
        self.got += 1
        if self.got == self.count:
            self.s3 = Mark.end()
            return True
        return False

    def unfinished(self):
        return Refused(f"only {self.got} of {self.count} records came in time")

    def cpu_us_per_record(self):
        return self.s3.cpu_us(self.s0) / max(1, self.count)

    def copied(self, delivery, t1):
        """Describes a copy whose last record was sent at `t1`."""
        if self.s2 is None:  # without records
            self.s2 = delivery.last
        t2 = max(self.s2.at, delivery.last.at)
        marks = {"s0": self.s0.at, "s1": self.s1 or self.s2.at, "s2": self.s2.at, "t1": t1, "t2": t2}
        return {
            "marks": instants(**marks),
            "cpu_us": delivery.last.cpu_us(self.s0),
            "copy_cpu_us": delivery.last.cpu_us(self.s2),
            "got": self.got,
            "bytes": self.bytes,
            "bad": self.bad,
            **delivery.json(),
        }

    def json(self):
        if self.s3 is None:  # without records
            self.s2 = self.s3 = Mark.end()
        marks = {"s0": self.s0.at, "s1": self.s1 or self.s2.at, "s2": self.s2.at, "s3": self.s3.at}
        if self.with_commit:
            marks["s4"] = self.s4
        return {
            "marks": instants(**marks),
            "cpu_us": self.s3.cpu_us(self.s0),
            "drain_cpu_us": self.s3.cpu_us(self.s2),
            "got": self.got,
            "bytes": self.bytes,
            "bad": self.bad,
        }


class Seconds:
    """Totals and the current second; reports each second when it ends."""

    def __init__(self, command):
        self.number = command.get("id")
        self.seconds = command.number("seconds")
        self.begin = Mark.begin()
        self.end = self.begin.at + self.seconds * 1_000_000_000
        self.next = self.begin.at + 1_000_000_000
        self.reported = self.records = self.bytes = self.cpu_us = 0
        self.all_records = self.all_bytes = 0

    def take(self, key, value):
        """Counts a received record."""
        if key_number(key) != PRIMER:
            self.records += 1
            self.bytes += len(key or b"") + len(value or b"")

    def tick(self, now):
        """Reports the completed seconds, except the last one, which ends with the command."""
        while now >= self.next and self.reported < self.seconds - 1:
            self._report()

    def _report(self):
        used = (process_time_ns() - self.begin.cpu) // 1000
        figures = {"records": self.records, "bytes": self.bytes, "cpu_us": used - self.cpu_us}
        say({"id": self.number, "event": "second", "second": self.reported, **figures})
        self.all_records += self.records
        self.all_bytes += self.bytes
        self.records = self.bytes = 0
        self.cpu_us = used
        self.reported += 1
        self.next += 1_000_000_000

    def json(self, failed):
        while self.reported < self.seconds:
            self._report()
        return {"records": self.all_records, "bytes": self.all_bytes, "failed": failed, "cpu_us": self.cpu_us}
