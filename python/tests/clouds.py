"""A cloud of its own for a test: a real server, and the configuration of its administrator."""

import contextlib
import pathlib
import subprocess
import sys

PADDLECLOUD = str(pathlib.Path(sys.executable).with_name("paddlecloud"))


@contextlib.contextmanager
def serving(folder, datacenter="local"):
    """Serves from `folder`, which is a home directory with `.paddle/config` meanwhile."""
    data = folder / "data"
    with (
        open(folder / "server.log", "wb") as log,
        subprocess.Popen(
            [PADDLECLOUD, "serve", "-listen", "127.0.0.1:0", "-data_dir", str(data)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as server,
    ):
        try:
            endpoint = server.stdout.readline().split()[-1]
            password = (data / "admin_password").read_text().strip()
            config = folder / ".paddle" / "config"
            config.parent.mkdir()
            config.write_text(
                f"datacenters:\n- name: {datacenter}\n  username: admin\n"
                f"  password: {password}\n  endpoint: {endpoint}\n"
            )
            yield
        finally:
            server.terminate()
            server.wait(60)
