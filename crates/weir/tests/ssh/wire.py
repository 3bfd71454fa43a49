#!/usr/bin/env python3
"""A wire between the network namespace of this process and that of another one. It delays packets,
those of each direction differently, and loses some.

  wire.py NAME HERE THERE PID DELAY_THERE_MS DELAY_BACK_MS JITTER_MS LOST_PERCENT

NAME begins the names of the interfaces, HERE and THERE are the addresses of the two ends, and PID is
a process in the other namespace. Prints a line once packets can flow; ends when its input ends.
"""
import collections, fcntl, os, random, select, struct, subprocess, sys, time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PACKET_BYTES_MAX = 65536


def interface(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def connect(name, here, there, pid):
    """Returns the devices of both ends."""
    ends = interface(name + "a"), interface(name + "b")
    inside = ["nsenter", "--target", pid, "--net", "ip"]
    for command in (
        ["ip", "link", "set", name + "b", "netns", pid],
        ["ip", "address", "add", here, "peer", there, "dev", name + "a"],
        ["ip", "link", "set", name + "a", "up"],
        [*inside, "address", "add", there, "peer", here, "dev", name + "b"],
        [*inside, "link", "set", name + "b", "up"],
        [*inside, "link", "set", "lo", "up"],
        [*inside, "route", "add", "default", "dev", name + "b"],
    ):
        subprocess.run(command, check=True)
    return ends


def main():
    name, here, there, pid, *numbers = sys.argv[1:]
    delay_there, delay_back, jitter, lost = map(float, numbers)
    a, b = connect(name, here, there, pid)
    print("ready", flush=True)
    chance = random.Random(7)
    # By device: the packets that it gets, each with its time, and the delay towards it.
    waiting = {a: collections.deque(), b: collections.deque()}
    delay_s = {a: delay_back / 1e3, b: delay_there / 1e3}
    while True:
        now = time.monotonic()
        for device, packets in waiting.items():
            while packets and packets[0][0] <= now:
                try:
                    os.write(device, packets.popleft()[1])
                except BlockingIOError:
                    pass  # A full queue loses packets.
        times = [packets[0][0] for packets in waiting.values() if packets]
        timeout = max(min(times) - now, 0) if times else None
        readable = select.select([sys.stdin, a, b], [], [], timeout)[0]
        if sys.stdin in readable:
            return
        for device in readable:
            packet = os.read(device, PACKET_BYTES_MAX)
            if chance.random() * 100 < lost:
                continue
            other = b if device == a else a
            at = time.monotonic() + delay_s[other] + chance.random() * jitter / 1e3
            packets = waiting[other]
            # Packets do not overtake each other.
            packets.append((max(at, packets[-1][0]) if packets else at, packet))


main()
