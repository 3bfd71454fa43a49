"""One unmodified Lightstreamer client for Python, told what to do by one JSON argument and by JSON lines on stdin;
prints what it sees as JSON lines. The protocol is in docs/conformance.md. Its debug log goes to stderr."""

import json
import os
import sys
import threading
import time

from lightstreamer.client import (
    ClientListener,
    ConsoleLoggerProvider,
    ConsoleLogLevel,
    LightstreamerClient,
    Subscription,
    SubscriptionListener,
)

# The SDK logs to standard output, which is for events only.
events = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
lock = threading.Lock()


def emit(event, **more):
    with lock:
        events.write(json.dumps({"event": event, **more}) + "\n")
        events.flush()


class Connection(ClientListener):
    def onStatusChange(self, status):
        emit("status", status=status)

    def onServerError(self, code, message):
        emit("server_error", code=code, message=message)


class Updates(SubscriptionListener):
    def __init__(self, sub):
        self.sub = sub

    def onSubscription(self):
        emit("subscribed", sub=self.sub)

    def onUnsubscription(self):
        emit("unsubscribed", sub=self.sub)

    def onSubscriptionError(self, code, message):
        emit("subscription_error", sub=self.sub, code=code, message=message)

    def onItemLostUpdates(self, itemName, itemPos, lostUpdates):
        emit("lost", sub=self.sub, item=itemName, pos=itemPos, n=lostUpdates)

    def onItemUpdate(self, update):
        at_us = time.time_ns() // 1000
        emit(
            "update",
            sub=self.sub,
            at_us=at_us,
            item=update.getItemName(),
            pos=update.getItemPos(),
            values=dict(update.getFields()),
            changed=list(update.getChangedFields()),
            snapshot=update.isSnapshot(),
        )


def subscribe(client, sub, wanted):
    subscription = Subscription(wanted["mode"], wanted["items"], wanted["fields"])
    subscription.setDataAdapter(wanted["data_adapter"])
    subscription.setRequestedSnapshot(wanted.get("snapshot"))
    subscription.addListener(Updates(sub))
    client.subscribe(subscription)
    return subscription


def main():
    config = json.loads(sys.argv[1])
    if config.get("debug"):
        LightstreamerClient.setLoggerProvider(ConsoleLoggerProvider(ConsoleLogLevel.DEBUG))
    client = LightstreamerClient(config["server"], config["adapter_set"])
    if config.get("transport"):
        client.connectionOptions.setForcedTransport(config["transport"])
    if config.get("keepalive_ms"):
        client.connectionOptions.setKeepaliveInterval(config["keepalive_ms"])
    client.addListener(Connection())
    # Subscribed before the connection: the SDK then sends them in one batch.
    subscriptions = [subscribe(client, sub, wanted) for sub, wanted in enumerate(config["subscriptions"])]
    client.connect()
    for line in sys.stdin:
        command = json.loads(line)
        if command["cmd"] == "subscribe":
            subscriptions.append(subscribe(client, len(subscriptions), command["subscription"]))
        elif command["cmd"] == "unsubscribe":
            client.unsubscribe(subscriptions[command.get("sub", 0)])
        elif command["cmd"] == "disconnect":
            client.disconnect()
        else:
            raise ValueError(f"unknown command {command['cmd']}")


if __name__ == "__main__":
    try:
        main()
    finally:
        # The SDK's own threads would keep the process alive.
        sys.stderr.flush()
        os._exit(0)
