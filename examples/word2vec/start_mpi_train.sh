#!/bin/sh
# One rank of a cluster under MPI: a parameter server and a trainer. Run it on every node:
#     mpirun -hostfile machines -n 3 /home/tutorial/start_mpi_train.sh
# The directory of this file needs train.py, word_dict.pickle, machines, and the parts of the data
# that are this rank's; logs go to logs/.
set -eu
cd "$(dirname "$0")"

: "${PADDLE_INIT_PORT:=7164}"
: "${PADDLE_INIT_PORTS_NUM:=1}"
: "${PADDLE_INIT_PORTS_NUM_FOR_SPARSE:=1}"

# The variables of a cluster are set, and exported, for server and trainer; the rank is mpirun's.
exec paddle launch --mpi --hostfile machines --log_dir logs \
    --port "$PADDLE_INIT_PORT" --mpi_port "$((PADDLE_INIT_PORT - 1))" \
    --ports_num "$PADDLE_INIT_PORTS_NUM" \
    --ports_num_for_sparse "$PADDLE_INIT_PORTS_NUM_FOR_SPARSE" \
    -- "${PYTHON:-python3}" train.py "$@"
