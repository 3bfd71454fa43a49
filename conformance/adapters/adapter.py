"""Remote Metadata Adapter of the tests, with the unmodified SDK for Python.

Arguments: host, port, user, password. adapter.js and Adapter.java decide the same.
"""

import sys
import threading
import time

from lightstreamer_adapter.interfaces.metadata import (
    AccessError, ConflictingSessionError, CreditsError, ItemsError, MetadataProvider, Mode,
    NotificationError, SchemaError)
from lightstreamer_adapter.server import MetadataProviderServer


def log(*words):
    """Prints what the test waits for."""
    print(*words, flush=True)


class Adapter(MetadataProvider):
    """Decides by names."""

    # Open session of the user who may have only one.
    single = None

    def initialize(self, parameters, config_file=None):
        log("init", parameters.get("app:region"))

    def notify_user(self, user, password, http_headers):
        if user == "bad":
            raise AccessError("no such user")
        if user == "blocked":
            raise CreditsError(-7, "quota", "Daily limit, come back")
        if user == "slow":
            time.sleep(2)

    def get_allowed_max_bandwidth(self, user):
        return 128.5

    def wants_tables_notification(self, user):
        return True

    def notify_new_session(self, user, session_id, client_context):
        if user == "single":
            other, self.single = self.single, None
            if other is not None:
                raise ConflictingSessionError(-9, "one session only", other, "Logged in elsewhere")
            self.single = session_id
        if user == "two":
            raise ConflictingSessionError(-9, "one session only", "Sold1", "Logged in elsewhere")

    def get_items(self, user, session_id, group):
        if group == "unknown":
            raise ItemsError("unknown list")
        if group == "mine":
            return [f"orders-[account={user}]", "quote-[symbol=é|+]"]
        if group == "own":
            return [f"ltest-[key={user}]"]
        return group.split(" ")

    def get_schema(self, user, session_id, group, schema):
        if schema == "secret":
            raise SchemaError("unknown field")
        return schema.split(" ")

    def mode_may_be_allowed(self, item, mode):
        return mode in (Mode.RAW, Mode.MERGE)

    def ismode_allowed(self, user, item, mode):
        return mode in (Mode.MERGE, Mode.DISTINCT)

    def get_distinct_snapshot_length(self, item):
        return 20

    def get_allowed_max_item_frequency(self, user, item):
        return 2.5

    def get_allowed_buffer_size(self, user, item):
        return 7

    def notify_new_tables(self, user, session_id, tables):
        if tables[0].group == "full":
            raise CreditsError(-5, "too many", None)

    def notify_tables_close(self, session_id, tables):
        log("NTC", session_id, tables[0].win_index)

    def notify_session_close(self, session_id):
        log("NSC", session_id)

    def notify_user_message(self, user, session_id, message):
        if message == "no":
            raise CreditsError(-3, "refused", None)
        if message == "?":
            raise NotificationError("bad")


class Server(MetadataProviderServer):
    """Lets the process end when the gateway stops. The SDK ends it when the connection breaks."""

    closed = threading.Event()

    def close(self):
        try:
            super().close()
        finally:
            self.closed.set()


if __name__ == "__main__":
    SERVER = Server(Adapter(), (sys.argv[1], int(sys.argv[2])))
    SERVER.remote_user, SERVER.remote_password = sys.argv[3:5]
    SERVER.start()
    SERVER.closed.wait()
