"""`settings`, and what it is given: `settings(batch_size=128, learning_method=AdamOptimizer())`."""

from paddle.v1.settings import (
    AdaDeltaOptimizer,
    AdaGradOptimizer,
    AdamaxOptimizer,
    AdamOptimizer,
    BaseSGDOptimizer,
    DecayedAdaGradOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
    settings,
)
from paddle.v2.optimizer import BaseRegularization, L1Regularization, L2Regularization, ModelAverage

Optimizer = BaseSGDOptimizer

__all__ = [
    "AdaDeltaOptimizer",
    "AdaGradOptimizer",
    "AdamOptimizer",
    "AdamaxOptimizer",
    "BaseRegularization",
    "BaseSGDOptimizer",
    "DecayedAdaGradOptimizer",
    "L1Regularization",
    "L2Regularization",
    "ModelAverage",
    "MomentumOptimizer",
    "Optimizer",
    "RMSPropOptimizer",
    "settings",
]
