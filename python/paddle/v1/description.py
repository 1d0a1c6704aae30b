"""How a configuration trains, as the original's TrainerConfig.

The network in it is that of `Topology.proto()`.
"""

import json

from paddle.v1.configuration import Configuration
from paddle.v2.model_config import Message
from paddle.v2.topology import Topology


def whole(
    configuration: Configuration, topology: Topology, network: bytes | None = None
) -> Message:
    """The TrainerConfig of a configuration; with our own description of the network, if given."""
    trained = configuration.optimizer is not None
    return Message(
        "TrainerConfig",
        model_config=topology.proto(),
        opt_config=_optimization(configuration) if trained else None,
        config_file=configuration.path,
        network=network,
    )


def _optimization(configuration: Configuration) -> Message:
    assert configuration.optimizer is not None
    described = json.loads(configuration.optimizer.to_json())
    schedule = described.get("schedule") or {"name": "constant"}
    return Message(
        "OptimizationConfig",
        batch_size=configuration.batch_size,
        algorithm="async_sgd" if configuration.optimizer.is_async else "sgd",
        learning_rate=described["learning_rate"],
        learning_rate_decay_a=schedule.get("a", 0.0),
        learning_rate_decay_b=schedule.get("b", 0.0),
        learning_method=described["rule"]["name"],
        learning_rate_schedule=schedule["name"],
    )
