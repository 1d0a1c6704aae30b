"""The machines of a cluster, and where and how jobs run on them.

`paddle launch --conf` reads this file and executes nothing in it: give each name the value itself.
"""

# One server and one trainer on each: user@host:port, user and port only if they are needed.
HOSTS = [
    "root@192.168.100.17",
    "root@192.168.100.18",
]

"""
workspace configuration
"""
# Where the directories of jobs are made on every machine; ~ is the home there.
ROOT_DIR = "/home/paddle"

"""
network configuration
"""
# The network interface that servers listen on; "" for all.
PADDLE_NIC = "eth0"
# The first port of a server.
PADDLE_PORT = 7164
# How many ports serve dense parameters: 2 to 8 pay on a fast network.
PADDLE_PORTS_NUM = 2
# How many more serve sparse parameters.
PADDLE_PORTS_NUM_FOR_SPARSE = 2

# For all processes of a job.
LD_LIBRARY_PATH = "/usr/local/cuda/lib64:/usr/lib64"
PADDLE_USE_GPU = False
