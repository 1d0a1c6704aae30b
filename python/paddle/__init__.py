"""Distributed training with parameter servers.

The package is light: importing it loads one extension module and starts nothing.
"""

from paddle import job
from paddle._native import __version__

__all__ = ["__version__", "job"]
