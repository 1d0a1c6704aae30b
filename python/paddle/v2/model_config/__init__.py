"""A network as the original's `ModelConfig`: `Topology.proto()` and `paddle.layer.parse_network`.

It is for people who read or compare networks, and for programs that take one apart; nothing here
reads it back. Layers that the original does not have are written under their own names.
"""

from paddle.v2.model_config.message import Message
from paddle.v2.model_config.network import model_config

__all__ = ["Message", "model_config"]
