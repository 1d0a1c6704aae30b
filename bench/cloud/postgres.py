"""A Postgres of the benchmark's own, with its defaults: what is committed is on the disk."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile


class Postgres:
    """Runs while it is entered; answers URLs of empty databases by their names."""

    @staticmethod
    def programs():
        """The newest one that is installed, where Debian puts it."""
        found = pathlib.Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")
        return max(
            (path.parent for path in found), key=lambda path: int(path.parts[-2]), default=None
        )

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.data = self.folder / "data"
        # It refuses to run as root.
        self.prefix = []
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
            self.prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        self.call("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8")
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -c unix_socket_directories=''"
        self.call(
            "pg_ctl", "-s", "-w", "-D", self.data, "-l", self.folder / "log", "-o", options, "start"
        )
        return self.database

    def database(self, name):
        self.call("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "postgres", name)
        return f"postgres://postgres@127.0.0.1:{self.port}/{name}"

    def call(self, program, *words):
        command = [*self.prefix, self.programs() / program, *words]
        command = [str(word) for word in command]
        # Not captured through pipes: the server would keep them open.
        done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}")

    def __exit__(self, *error):
        self.call("pg_ctl", "-s", "-m", "immediate", "-D", self.data, "stop")
        shutil.rmtree(self.folder, ignore_errors=True)
