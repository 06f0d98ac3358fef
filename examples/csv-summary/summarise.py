"""Summarises a CSV file of the workspace and returns the summary in a Letta frame.

The frame is what tools written for that platform print: marker, length, MD5, payload. pinfold takes it out of the
output and puts its payload into the result; every other line stays output.
"""
import csv
import hashlib
import json
import statistics
import struct
import sys
import uuid

MARKER = uuid.uuid5(uuid.NAMESPACE_DNS, "local-sandbox-result-start-marker").bytes


def summarise(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers = {}
    for row in rows:
        for column, text in row.items():
            try:
                numbers.setdefault(column, []).append(float(text))
            except ValueError:
                pass
    columns = {
        column: {
            "count": len(values),
            "mean": round(statistics.fmean(values), 3),
            "median": statistics.median(values),
            "min": min(values),
            "max": max(values),
        }
        for column, values in numbers.items()
        if len(values) == len(rows)
    }
    return {"rows": len(rows), "columns": columns}


def send_result(value):
    payload = json.dumps({"results": value, "agent_state": None}).encode()
    frame = MARKER + struct.pack(">I", len(payload)) + hashlib.md5(payload).hexdigest().encode() + payload
    sys.stdout.flush()
    sys.stdout.buffer.write(frame)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    print(f"reading {sys.argv[1]}")
    send_result(summarise(sys.argv[1]))
    print("done")
