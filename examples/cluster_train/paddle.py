"""Runs a job on the machines of conf.py: `python paddle.py --job_dispatch_package=DIR [flags]`.

It only stands in for the command `paddle launch --conf conf.py`, and imports nothing: a file of
this name hides the package `paddle` from whatever is beside it.
"""

import os
import sys

CONF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "conf.py")

try:
    os.execvp("paddle", ["paddle", "launch", "--conf", CONF, *sys.argv[1:]])
except FileNotFoundError:
    sys.exit("the command `paddle` is not in PATH: pip install paddlecloud")
