"""Public data sets of the datacenter in which a job runs, shared out to its trainers.

    import paddle.cloud.dataset.uci_housing as uci_housing
    reader = uci_housing.train()

An administrator fills them by `paddlecloud dataset put NAME`, which runs `python -m
paddle.cloud.dataset NAME FOLDER` to write the files.
"""

from paddle.cloud.dataset import common, uci_housing

__all__ = ["common", "uci_housing"]
