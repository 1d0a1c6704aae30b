#!/bin/sh
# The client of `paddle cluster_train`; local_config.py beside it has the receivers.
exec "$(dirname "$0")/paddle" cluster_train "$@"
