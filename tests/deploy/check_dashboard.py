"""Reads a dashboard with Grafana's own types and writes it again: nothing may be lost or changed on the way.

A field that Grafana doesn't know would be lost, one of a wrong kind would be changed or fail.
"""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def differences(path, ours, theirs):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in theirs:
                yield f"{path}.{key}: unknown to Grafana"
            # What is left out has a default.
            elif key in ours:
                yield from differences(f"{path}.{key}", ours[key], theirs[key])
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs)):
            yield from differences(f"{path}[{index}]", *pair)
    elif ours != theirs:
        yield f"{path}: {ours!r} reads as {theirs!r}"


def main(path):
    register_default_plugins()
    with open(path, encoding="utf-8") as file:
        ours = json.load(file)
    theirs = json.loads(JSONEncoder().encode(Dashboard.from_json(ours)))
    found = list(differences("dashboard", ours, theirs))
    for line in found:
        print(line)
    ids = [panel["id"] for panel in ours["panels"]]
    if len(ids) != len(set(ids)):
        found.append("panels share an id")
        print(found[-1])
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
