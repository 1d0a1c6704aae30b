"""The distributed part of the demonstration: `examples/fit_a_line`, unchanged, with two parameter
servers and two trainers, all real processes.

    demo_training.py FOLDER    FOLDER is for data and models
"""

import json
import os
import subprocess
import sys

TRAINERS = 2
SERVERS = 2
EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "examples", "fit_a_line")


def example(program, folder):
    """A command of the example that finds data and models in `folder`."""
    data = os.path.join(folder, "housing.data")
    command = [sys.executable, os.path.join(EXAMPLE, program)]
    return command + (["--output", data] if program == "generate.py" else ["--data", data])


def main(folder):
    """Starts servers, waits until they are ready, starts trainers, waits for all."""
    subprocess.run(example("generate.py", folder), check=True)
    paddle = os.path.join(os.path.dirname(sys.executable), "paddle")
    serve = [paddle, "pserver", "--port=0", f"--num_gradient_servers={TRAINERS}"]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    servers = [subprocess.Popen(serve, **quiet) for _ in range(SERVERS)]
    try:
        ready = [json.loads(server.stdout.readline()) for server in servers]
        pservers = ",".join(f"127.0.0.1:{line['port']}" for line in ready)
        print(f"  {SERVERS} servers ready at {pservers}", flush=True)
        train = example("train.py", folder) + ["--preset", "test", "--output", folder]
        told = {
            "PADDLE_CLUSTER_TRAIN": "1",
            "PADDLE_INIT_PSERVERS": pservers,
            "PADDLE_INIT_NUM_GRADIENT_SERVERS": str(TRAINERS),
        }
        trainers = [
            subprocess.Popen(
                train,
                env=os.environ | told | {"PADDLE_INIT_TRAINER_ID": str(rank)},
                stdout=None if rank == 0 else subprocess.DEVNULL,
            )
            for rank in range(TRAINERS)
        ]
        codes = [trainer.wait() for trainer in trainers] + [server.wait() for server in servers]
        if any(codes):
            sys.exit(f"a process failed: exit codes {codes}")
        print("  all trainers have left, the servers have ended")
    finally:
        for server in servers:
            server.kill()
    infer = example("infer.py", folder) + ["--model", newest(folder)]
    answers = subprocess.run(infer, check=True, capture_output=True, text=True).stdout
    print("".join(f"  {line}\n" for line in answers.splitlines()[:5]), end="")


def newest(folder):
    """The model of the last pass."""
    models = [name for name in os.listdir(folder) if name.endswith(".tar.gz")]
    return os.path.join(folder, max(models))


if __name__ == "__main__":
    main(sys.argv[1])
