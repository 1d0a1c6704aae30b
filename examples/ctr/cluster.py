"""Who this process is and where the servers are, by its arguments or a cluster's environment."""

import dataclasses
import os
import shutil
import sys

# The first that is set says where the servers are.
SERVER_LISTS = ("PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_PSERVER_IPS", "PADDLE_PSERVERS")


@dataclasses.dataclass
class Cluster:
    """A process of a job; one without servers trains alone."""

    role: str = "TRAINER"
    servers: str = ""
    port: int = 0
    trainers: int = 1
    trainer_id: int = 0

    @property
    def is_local(self):
        return not self.servers

    @staticmethod
    def from_arguments(arguments):
        """As `--role`, `--endpoints` and others say."""
        return Cluster(
            role=arguments.role.upper(),
            servers=arguments.endpoints,
            port=int(arguments.current_endpoint.rsplit(":", 1)[1]),
            trainers=arguments.trainers,
            trainer_id=arguments.trainer_id,
        )

    @staticmethod
    def from_environment():
        """As a Kubernetes manifest says."""
        role = os.getenv("TRAINING_ROLE", "TRAINER").upper()
        servers = next(filter(None, map(os.getenv, SERVER_LISTS)), "")
        if role == "TRAINER" and not servers:
            raise SystemExit(f"no servers are known: set {SERVER_LISTS[0]} to host:port,host:port")
        return Cluster(
            role=role,
            servers=servers,
            port=int(os.getenv("PADDLE_PORT", "6174")),
            trainers=int(os.getenv("PADDLE_TRAINERS_NUM", "1")),
            trainer_id=int(os.getenv("PADDLE_TRAINER_ID", "0")),
        )

    def serve(self):
        """Becomes a parameter server, until the job is over: signals and exit code are its own."""
        beside = os.path.dirname(sys.executable)
        command = shutil.which("paddle", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
        os.execv(
            command or "paddle",
            [
                "paddle",
                "pserver",
                f"--port={self.port}",
                "--ports_num=1",
                # An endpoint is one port: the dense one serves sparse parameters too.
                "--ports_num_for_sparse=0",
                f"--num_gradient_servers={self.trainers}",
            ],
        )

    def flags(self):
        """For `paddle.init`."""
        if self.is_local:
            return {}
        return {
            "pservers": self.servers,
            "port": self.port,
            "ports_num": 1,
            "ports_num_for_sparse": 0,
            "num_gradient_servers": self.trainers,
            "trainer_id": self.trainer_id,
        }
