"""How a configuration trains, as the original's TrainerConfig.

The network in it is that of `Topology.proto()`. What settings say of all parameters stands at each
parameter that says nothing else, where the original has it.
"""

import json
import pickle
from typing import Any

from paddle.v1.configuration import Configuration
from paddle.v1.recording import Source
from paddle.v2.model_config import Message
from paddle.v2.optimizer import Optimizer
from paddle.v2.topology import Topology

# What a rule is told, and the fields that have it.
_OF_RULES = {
    "adam": {"beta1": "adam_beta1", "beta2": "adam_beta2", "epsilon": "adam_epsilon"},
    "adamax": {"beta1": "adam_beta1", "beta2": "adam_beta2"},
    **dict.fromkeys(
        ("adadelta", "decayed_adagrad", "rmsprop"), {"rho": "ada_rou", "epsilon": "ada_epsilon"}
    ),
}


def whole(
    configuration: Configuration, topology: Topology, network: bytes | None = None
) -> Message:
    """The TrainerConfig of a configuration; with our own description of the network, if given."""
    model, optimizer = topology.proto(), configuration.optimizer
    if optimizer is not None:
        _spread(optimizer, model)
    return Message(
        "TrainerConfig",
        model_config=model,
        data_config=_data(configuration.train, is_test=False),
        opt_config=None
        if optimizer is None
        else _optimization(optimizer, configuration.batch_size),
        test_data_config=_data(configuration.test, is_test=True),
        config_file=configuration.path,
        network=network,
        **configuration.flags,
    )


def _optimization(optimizer: Optimizer, batch_size: int | None) -> Message:
    described = json.loads(optimizer.to_json())
    # The original's default; without a and b it is constant.
    schedule = described.get("schedule", {"name": "poly"})
    rule, average = described["rule"], described.get("average", {})
    fields = _OF_RULES.get(rule["name"], {})
    return Message(
        "OptimizationConfig",
        batch_size=batch_size,
        algorithm="async_sgd" if optimizer.is_async else "sgd",
        learning_rate=described["learning_rate"],
        learning_rate_decay_a=schedule.get("a", 0.0),
        learning_rate_decay_b=schedule.get("b", 0.0),
        average_window=average.get("window"),
        max_average_window=average.get("window_max"),
        learning_method=rule["name"],
        learning_rate_schedule=schedule["name"],
        learning_rate_args=schedule.get("segments"),
        async_lagged_grad_discard_ratio=optimizer.lag_ratio_max,
        **{field: rule[name] for name, field in fields.items()},
    )


def _spread(optimizer: Optimizer, model: Message) -> None:
    """Gives parameters what the optimizer has for those that do not say otherwise."""
    defaults = optimizer.defaults()
    found = {
        "momentum": json.loads(optimizer.to_json())["rule"].get("momentum"),
        "decay_rate": defaults.l2 or None,
        "decay_rate_l1": defaults.l1 or None,
        "gradient_clipping_threshold": defaults.clip,
    }
    for parameter in model.parameters:
        for name, value in found.items():
            if not parameter.HasField(name):
                parameter.set(name, value)


def _data(source: Source | None, is_test: bool) -> Message | None:
    if source is None:
        return None
    # The original writes a list of the configuration to this file.
    listed = "test.list" if is_test else "train.list"
    return Message(
        "DataConfig",
        type="py2",
        files=source.files if isinstance(source.files, str) else listed,
        async_load_data=True,
        for_test=is_test,
        load_data_module=source.module,
        load_data_object=source.object,
        load_data_args=_arguments(source.args),
    )


def _arguments(args: Any) -> str | None:
    """As the original hands them to a provider: a text as it is, else a pickle."""
    if args is None or isinstance(args, str):
        return args or ""
    try:
        return pickle.dumps(args, protocol=0).decode("latin-1")
    except (pickle.PicklingError, TypeError, AttributeError):
        # A function of the configuration, say, of which nothing can be written.
        return None
