"""Prints the newest record of some keys of a Kafka topic as it changes.

Usage: live.py [SERVER [KEY...]]
"""

import signal
import sys

from lightstreamer.client import (
    ClientListener,
    LightstreamerClient,
    Subscription,
    SubscriptionListener,
)


class Connection(ClientListener):
    def __init__(self, server):
        super().__init__()
        self.server = server

    def onStatusChange(self, status):
        print(status, file=sys.stderr)
        if status == "DISCONNECTED:WILL-RETRY":
            print(f"no gateway answers at {self.server}, trying again", file=sys.stderr)

    def onServerError(self, code, message):
        print(f"refused: {code} {message}", file=sys.stderr)


class Records(SubscriptionListener):
    def onSubscriptionError(self, code, message):
        print(f"not subscribed: {code} {message}", file=sys.stderr)

    def onItemUpdate(self, update):
        at = f"{update.getValue('partition')}/{update.getValue('offset')}"
        value = update.getValue("value")
        shown = "(null)" if value is None else value[:60]
        print(f"{update.getItemName()}  {at}  {shown}", flush=True)


def main():
    server = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
    keys = sys.argv[2:] or ["Apple", "Banana", "Orange", "Grape", "Kiwi"]

    # The names of the adapter set, the data adapter, the items and the fields are those of ../adapters.xml.
    client = LightstreamerClient(server, "KafkaConnector")
    client.addListener(Connection(server))
    items = [f"ltest-[key={key}]" for key in keys]
    # MERGE: what a record holds replaces what the one before held; a client that lags gets the newest.
    subscription = Subscription("MERGE", items, ["key", "value", "partition", "offset"])
    subscription.setDataAdapter("QuickStart")
    subscription.addListener(Records())
    client.subscribe(subscription)
    client.connect()
    try:
        signal.pause()
    except KeyboardInterrupt:
        client.disconnect()


if __name__ == "__main__":
    main()
