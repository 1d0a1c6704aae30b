"""V1: a configuration file and a data provider, trained by `paddle train`.

It is another way to describe what `paddle.v2` describes: layers, optimizers and training are those
of `paddle.v2`. `docs/v1.md` is the page for users.
"""
