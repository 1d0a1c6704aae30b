"""The receivers of `paddle cluster_train`: the first that answers is used. Nothing is executed."""

receivers = ["127.0.0.1:8080"]
