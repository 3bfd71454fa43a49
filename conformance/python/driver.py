"""An unmodified Lightstreamer client for Python, controlled by a JSON argument and JSON lines on stdin.
Prints its events as JSON lines. Protocol: docs/conformance.md. The debug log goes to stderr."""

import json
import os
import sys
import threading
import time

from lightstreamer.client import (
    ClientListener,
    ClientMessageListener,
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
    def __init__(self, client, details):
        self.client = client
        self.details = details

    def onStatusChange(self, status):
        emit("status", status=status)

    def onServerError(self, code, message):
        emit("server_error", code=code, message=message)

    def onPropertyChange(self, name):
        if self.details and name == "realMaxBandwidth":
            emit("real_max_bandwidth", value=text(self.client.connectionOptions.getRealMaxBandwidth()))


class Updates(SubscriptionListener):
    def __init__(self, sub, wanted, details):
        self.sub = sub
        self.fields = wanted["fields"]
        self.details = details

    def onSubscription(self):
        emit("subscribed", sub=self.sub)

    def onUnsubscription(self):
        emit("unsubscribed", sub=self.sub)

    def onSubscriptionError(self, code, message):
        emit("subscription_error", sub=self.sub, code=code, message=message)

    def onItemLostUpdates(self, itemName, itemPos, lostUpdates):
        emit("lost", sub=self.sub, item=itemName, pos=itemPos, n=lostUpdates)

    def onEndOfSnapshot(self, itemName, itemPos):
        if self.details:
            emit("end_of_snapshot", sub=self.sub, item=itemName, pos=itemPos)

    def onClearSnapshot(self, itemName, itemPos):
        if self.details:
            emit("clear_snapshot", sub=self.sub, item=itemName, pos=itemPos)

    def onRealMaxFrequency(self, frequency):
        if self.details:
            emit("real_max_frequency", sub=self.sub, value=text(frequency))

    def onItemUpdate(self, update):
        at_us = time.time_ns() // 1000
        more = {}
        if self.details:
            patch = update.getValueAsJSONPatchIfAvailable
            more["patched"] = [field for field in self.fields if patch(field) is not None]
        emit(
            "update",
            sub=self.sub,
            at_us=at_us,
            item=update.getItemName(),
            pos=update.getItemPos(),
            values=dict(update.getFields()),
            changed=list(update.getChangedFields()),
            snapshot=update.isSnapshot(),
            **more,
        )


class Outcome(ClientMessageListener):
    def onAbort(self, originalMessage, sentOnNetwork):
        emit("message", text=originalMessage, outcome="aborted")

    def onDeny(self, originalMessage, errorCode, errorMessage):
        emit("message", text=originalMessage, outcome="denied", code=errorCode, message=errorMessage)

    def onDiscarded(self, originalMessage):
        emit("message", text=originalMessage, outcome="discarded")

    def onError(self, originalMessage):
        emit("message", text=originalMessage, outcome="error")

    def onProcessed(self, originalMessage, *response):
        emit("message", text=originalMessage, outcome="processed")


def text(value):
    return None if value is None else str(value)


def subscribe(client, sub, wanted, details):
    subscription = Subscription(wanted["mode"], wanted["items"], wanted["fields"])
    subscription.setDataAdapter(wanted["data_adapter"])
    subscription.setRequestedSnapshot(wanted.get("snapshot"))
    if wanted.get("max_frequency"):
        subscription.setRequestedMaxFrequency(wanted["max_frequency"])
    if wanted.get("buffer"):
        subscription.setRequestedBufferSize(wanted["buffer"])
    if second_level := wanted.get("second_level"):
        subscription.setCommandSecondLevelFields(second_level["fields"])
        subscription.setCommandSecondLevelDataAdapter(second_level["data_adapter"])
    subscription.addListener(Updates(sub, wanted, details))
    client.subscribe(subscription)
    return subscription


def main():
    config = json.loads(sys.argv[1])
    if config.get("debug"):
        LightstreamerClient.setLoggerProvider(ConsoleLoggerProvider(ConsoleLogLevel.DEBUG))
    client = LightstreamerClient(config["server"], config["adapter_set"])

    def option(name, value):
        getattr(client.connectionOptions, f"set{name}")(value)

    if config.get("transport"):
        option("ForcedTransport", config["transport"])
    if config.get("keepalive_ms"):
        option("KeepaliveInterval", config["keepalive_ms"])
    for name, value in config.get("options", {}).items():
        option(name, value)
    details = config.get("details", False)
    client.addListener(Connection(client, details))
    # Subscribed before the connection: the SDK then sends them in one batch.
    wanted = enumerate(config["subscriptions"])
    subscriptions = [subscribe(client, sub, subscription, details) for sub, subscription in wanted]
    client.connect()
    for line in sys.stdin:
        command = json.loads(line)
        if command["cmd"] == "subscribe":
            place = len(subscriptions)
            subscriptions.append(subscribe(client, place, command["subscription"], details))
        elif command["cmd"] == "unsubscribe":
            client.unsubscribe(subscriptions[command.get("sub", 0)])
        elif command["cmd"] == "frequency":
            subscriptions[command.get("sub", 0)].setRequestedMaxFrequency(command["value"])
        elif command["cmd"] == "option":
            option(command["name"], command["value"])
        elif command["cmd"] == "message":
            listener = Outcome() if command["listens"] else None
            client.sendMessage(command["text"], command["sequence"], None, listener, False)
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
