"""Prints the newest record of some keys of a Kafka topic as it changes.

Needs no package. Usage: live.py [SERVER [KEY...]]
"""

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

REFUSALS = {400, 401, 403, 404, 405, 431}


def events(url, last):
    """Yields name and data of each event; returns at the end of the stream.

    Continues after the event with the id last["id"], and stores the id of each event there.
    """
    request = urllib.request.Request(url, headers={"Last-Event-ID": last["id"]})
    with urllib.request.urlopen(request, timeout=30) as stream:
        name = None
        for line in stream:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)
            elif field == "id":
                last["id"] = value


def main():
    server = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
    keys = sys.argv[2:] or ["Apple", "Banana", "Orange", "Grape", "Kiwi"]
    query = [("item", f"ltest-[key={key}]") for key in keys]
    query.append(("fields", "partition,offset,value"))
    url = f"{server}/sse?{urllib.parse.urlencode(query)}"
    last = {"id": ""}
    while True:
        try:
            for name, data in events(url, last):
                if "values" in data:
                    values = data["values"]
                    shown = "(null)" if values["value"] is None else values["value"][:60]
                    place = f"{values['partition']}/{values['offset']}"
                    print(f"{data['item']}  {place}  {shown}", flush=True)
        except urllib.error.HTTPError as error:
            reason = error.read().decode().strip()
            if error.code in REFUSALS:
                sys.exit(f"refused: {reason}")
            print(f"waiting: {reason}", file=sys.stderr)
        except urllib.error.URLError:
            print(f"no gateway answers at {server}, trying again", file=sys.stderr)
        except OSError as error:
            print(f"waiting: {error}", file=sys.stderr)
        time.sleep(2)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
