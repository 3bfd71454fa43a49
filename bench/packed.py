#!/usr/bin/env python3
"""Compresses run.json for the repository. Fractions keep six significant digits: more are noise, and
take a third of the space.

    bench/packed.py FILE...      replaces each run.json, compressed already or not, by run.json.gz
"""

import gzip
import json
import pathlib
import sys


def rounded(value):
    """Returns a copy with rounded fractions."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return value


def compressed(run):
    """Returns the bytes of a run; always the same for the same run."""
    text = json.dumps(rounded(run), separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), 9, mtime=0)


def main(paths):
    for path in map(pathlib.Path, paths):
        data = path.read_bytes()
        run = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        path.with_name("run.json.gz").write_bytes(compressed(run))
        if path.suffix != ".gz":
            path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
