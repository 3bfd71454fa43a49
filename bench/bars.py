"""The bars of plans/bars.toml, for the scripts in this directory."""

import pathlib
import tomllib

FILE = pathlib.Path(__file__).resolve().parent.parent / "plans/bars.toml"


def at_most(name):
    """Returns the maximum of the bar with this id."""
    bars = tomllib.loads(FILE.read_text())["bars"]
    (value,) = [bar["at_most"] for bar in bars if bar["id"] == name]
    return value


if __name__ == "__main__":
    import sys

    print(at_most(sys.argv[1]))
