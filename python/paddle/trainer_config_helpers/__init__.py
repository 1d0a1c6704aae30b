"""What V1 configurations import: `from paddle.trainer_config_helpers import *`.

The functions are those of `paddle.v2` under their V1 names, with what V1 does differently: data
layers learn from the data provider what they are fed with, and settings, data sources, inputs and
outputs are said of the configuration as a whole.
"""

from paddle.trainer.config_parser import (
    Import,
    Settings,
    cluster_config,
    default_decay_rate,
    default_device,
    default_gradient_clipping_threshold,
    default_initial_mean,
    default_initial_smart,
    default_initial_std,
    default_initial_strategy,
    default_momentum,
    default_num_batches_regularization,
    default_update_hooks,
    get_config_arg,
)
from paddle.trainer_config_helpers import (
    activations,
    attrs,
    data_sources,
    evaluators,
    layers,
    networks,
    optimizers,
    poolings,
)
from paddle.trainer_config_helpers.activations import *  # noqa: F403
from paddle.trainer_config_helpers.attrs import *  # noqa: F403
from paddle.trainer_config_helpers.data_sources import *  # noqa: F403
from paddle.trainer_config_helpers.evaluators import *  # noqa: F403
from paddle.trainer_config_helpers.layers import *  # noqa: F403
from paddle.trainer_config_helpers.networks import *  # noqa: F403
from paddle.trainer_config_helpers.optimizers import *  # noqa: F403
from paddle.trainer_config_helpers.poolings import *  # noqa: F403
from paddle.v1.workspace import open_file
from paddle.v2 import op as layer_math

# A configuration that is run as a program finds the files of its trainer by it.
open = open_file

__all__ = [
    "Import",
    "Settings",
    "cluster_config",
    "default_decay_rate",
    "default_device",
    "default_gradient_clipping_threshold",
    "default_initial_mean",
    "default_initial_smart",
    "default_initial_std",
    "default_initial_strategy",
    "default_momentum",
    "default_num_batches_regularization",
    "default_update_hooks",
    "get_config_arg",
    "layer_math",
    "open",
    *activations.__all__,
    *attrs.__all__,
    *data_sources.__all__,
    *evaluators.__all__,
    *layers.__all__,
    *networks.__all__,
    *optimizers.__all__,
    *poolings.__all__,
]
