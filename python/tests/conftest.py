"""Fixtures of tests in several files: a receiver of `paddle cluster_train`, and its store."""

import pytest
from receiver import running


@pytest.fixture
def store(tmp_path):
    """A directory that the receiver may use."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def receiver(tmp_path, store):
    """A receiver with two queues on this machine."""
    config = f"""
datacenters:
- name: local
  capacity: {{replicas: 8}}
  queues:
  - {{name: fcr, time_limit_seconds_max: 1800, node: {{kind: cpu}}}}
  - {{name: demo}}
  - {{name: fcr-slow, time_limit_seconds_max: 359999, nodes_max: 2, priorities: [low, normal]}}
stores:
- url: file://{store}
"""
    with running(tmp_path, config) as started:
        yield started
