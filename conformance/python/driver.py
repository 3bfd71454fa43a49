"""An unmodified Lightstreamer client for Python, controlled by a JSON argument and JSON lines on stdin.
Prints its events as JSON lines. Protocol: docs/conformance.md. The debug log goes to stderr. One process
serves several clients, one after the other, because loading the SDK is slow."""

import json
import os
import sys
import threading
import time
from http.cookies import SimpleCookie

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


class Events:
    """The output of one client."""

    def __init__(self, details):
        self.details = details
        self.closed = False

    def emit(self, event, **more):
        with lock:
            if not self.closed:
                events.write(json.dumps({"event": event, **more}) + "\n")
                events.flush()

    def detail(self, event, **more):
        if self.details:
            self.emit(event, **more)

    def close(self):
        self.emit("closed")
        with lock:
            self.closed = True


class Connection(ClientListener):
    def __init__(self, client, out):
        self.client = client
        self.out = out

    def onStatusChange(self, status):
        self.out.emit("status", status=status)

    def onServerError(self, code, message):
        self.out.emit("server_error", code=code, message=message)

    def onPropertyChange(self, name):
        if name == "realMaxBandwidth":
            value = text(self.client.connectionOptions.getRealMaxBandwidth())
            self.out.detail("real_max_bandwidth", value=value)


class Updates(SubscriptionListener):
    def __init__(self, sub, wanted, out):
        self.sub = sub
        self.fields = wanted["fields"]
        self.out = out

    def onSubscription(self):
        self.out.emit("subscribed", sub=self.sub)

    def onUnsubscription(self):
        self.out.emit("unsubscribed", sub=self.sub)

    def onSubscriptionError(self, code, message):
        self.out.emit("subscription_error", sub=self.sub, code=code, message=message)

    def onItemLostUpdates(self, itemName, itemPos, lostUpdates):
        self.out.emit("lost", sub=self.sub, item=itemName, pos=itemPos, n=lostUpdates)

    def onEndOfSnapshot(self, itemName, itemPos):
        self.out.detail("end_of_snapshot", sub=self.sub, item=itemName, pos=itemPos)

    def onClearSnapshot(self, itemName, itemPos):
        self.out.detail("clear_snapshot", sub=self.sub, item=itemName, pos=itemPos)

    def onRealMaxFrequency(self, frequency):
        self.out.detail("real_max_frequency", sub=self.sub, value=text(frequency))

    def onItemUpdate(self, update):
        at_us = time.time_ns() // 1000
        more = {}
        if self.out.details:
            patch = update.getValueAsJSONPatchIfAvailable
            more["patched"] = [field for field in self.fields if patch(field) is not None]
        self.out.emit(
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
    def __init__(self, out):
        self.out = out

    def onAbort(self, originalMessage, sentOnNetwork):
        self.out.emit("message", text=originalMessage, outcome="aborted")

    def onDeny(self, originalMessage, errorCode, errorMessage):
        more = {"code": errorCode, "message": errorMessage}
        self.out.emit("message", text=originalMessage, outcome="denied", **more)

    def onDiscarded(self, originalMessage):
        self.out.emit("message", text=originalMessage, outcome="discarded")

    def onError(self, originalMessage):
        self.out.emit("message", text=originalMessage, outcome="error")

    def onProcessed(self, originalMessage, *response):
        self.out.emit("message", text=originalMessage, outcome="processed")


def text(value):
    return None if value is None else str(value)


class Client:
    def __init__(self, config):
        self.out = Events(config.get("details", False))
        self.client = LightstreamerClient(config["server"], config["adapter_set"])
        if config.get("transport"):
            self.option("ForcedTransport", config["transport"])
        if config.get("keepalive_ms"):
            self.option("KeepaliveInterval", config["keepalive_ms"])
        for name, value in config.get("options", {}).items():
            self.option(name, value)
        if config.get("user"):
            self.client.connectionDetails.setUser(config["user"])
        if config.get("password"):
            self.client.connectionDetails.setPassword(config["password"])
        if config.get("cookie"):
            LightstreamerClient.addCookies(config["server"], SimpleCookie(config["cookie"]))
        self.has_cookie = bool(config.get("cookie"))
        self.client.addListener(Connection(self.client, self.out))
        # Subscribed before the connection: the SDK then sends them in one batch.
        self.subscriptions = []
        for wanted in config["subscriptions"]:
            self.subscribe(wanted)
        self.client.connect()

    def option(self, name, value):
        getattr(self.client.connectionOptions, f"set{name}")(value)

    def subscribe(self, wanted):
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
        subscription.addListener(Updates(len(self.subscriptions), wanted, self.out))
        self.subscriptions.append(subscription)
        self.client.subscribe(subscription)

    def obey(self, command):
        cmd = command["cmd"]
        if cmd == "subscribe":
            self.subscribe(command["subscription"])
        elif cmd == "unsubscribe":
            self.client.unsubscribe(self.subscriptions[command.get("sub", 0)])
        elif cmd == "frequency":
            self.subscriptions[command.get("sub", 0)].setRequestedMaxFrequency(command["value"])
        elif cmd == "option":
            self.option(command["name"], command["value"])
        elif cmd == "password":
            self.client.connectionDetails.setPassword(command["value"])
        elif cmd == "message":
            listener = Outcome(self.out) if command["listens"] else None
            self.client.sendMessage(command["text"], command["sequence"], None, listener, False)
        elif cmd == "disconnect":
            self.client.disconnect()
        elif cmd == "close":
            if self.has_cookie:
                # Other clients must not have the cookie.
                sys.exit()
            self.out.close()
            self.client.disconnect()
        else:
            raise ValueError(f"unknown command {cmd}")


def main():
    config = json.loads(sys.argv[1])
    if config.get("debug"):
        LightstreamerClient.setLoggerProvider(ConsoleLoggerProvider(ConsoleLogLevel.DEBUG))
    client = Client(config)
    for line in sys.stdin:
        command = json.loads(line)
        if command["cmd"] == "open":
            client = Client(command["config"])
        else:
            client.obey(command)


if __name__ == "__main__":
    try:
        main()
    finally:
        # The SDK's own threads would keep the process alive.
        sys.stderr.flush()
        os._exit(0)
