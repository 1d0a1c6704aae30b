"""A trainer that only reads what the master deals out, one command of the test at a time.

Takes lines on stdin: a number, to take so many records, or `pass`, to take all until the pass is
over. Prints the records it consumed, a JSON list a line; the pass's end is a null in it.
"""

import json
import os
import sys

import paddle.v2 as paddle

paddle.init()
reader = paddle.reader.creator.cloud_reader(os.environ.get("DATASET"))
samples = iter(reader())
print("ready", flush=True)
for line in sys.stdin:
    count = None if line.strip() == "pass" else int(line)
    taken = []
    while count is None or len(taken) < count:
        sample = next(samples, None)
        taken.append(sample)
        if sample is None:
            samples = iter(reader())
            break
    print(json.dumps(taken), flush=True)
