"""The CTR network on PaddlePaddle 2.6's own parameter server: native reader, async, lazy Adam.

    peer_paddle.py launch SERVERS TRAINERS PATTERN OUT   starts all processes on loopback
    peer_paddle.py run PATTERN OUT                       is one of them, as the environment says

Each trainer writes OUT/trainer-RANK.json: rows, seconds of the pass, the progressive AUC.
"""

import contextlib
import glob
import json
import os
import pathlib
import subprocess
import sys
import time

BATCH, WIDTH = 512, 16
FIRST_PORT = 36000
LIMIT_SECONDS = 1500


def launch(servers, trainers, pattern, out):
    ports = {
        "PSERVER": range(FIRST_PORT, FIRST_PORT + servers),
        "TRAINER": range(FIRST_PORT + 100, FIRST_PORT + 100 + trainers),
    }
    endpoints = {role: ",".join(f"127.0.0.1:{port}" for port in own) for role, own in ports.items()}
    common = {
        **os.environ,
        "GLOG_minloglevel": "2",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "POD_IP": "127.0.0.1",
        "PADDLE_TRAINERS_NUM": str(trainers),
        "PADDLE_PSERVERS_IP_PORT_LIST": endpoints["PSERVER"],
        "PADDLE_TRAINER_ENDPOINTS": endpoints["TRAINER"],
    }
    started = {"PSERVER": [], "TRAINER": []}
    with contextlib.ExitStack() as stack:
        try:
            for role, own in ports.items():
                for rank, port in enumerate(own):
                    variables = {"TRAINING_ROLE": role, "PADDLE_PORT": str(port)}
                    if role == "TRAINER":
                        variables["PADDLE_TRAINER_ID"] = str(rank)
                    log = stack.enter_context(open(pathlib.Path(out, f"{role}-{rank}.log"), "w"))
                    process = subprocess.Popen(
                        [sys.executable, __file__, "run", pattern, out],
                        env=common | variables,
                        stdout=log,
                        stderr=log,
                    )
                    started[role].append(process)
            codes = [process.wait(LIMIT_SECONDS) for process in started["TRAINER"]]
        finally:
            for process in started["PSERVER"] + started["TRAINER"]:
                process.kill()
                process.wait()
    if any(codes):
        logs = sorted(pathlib.Path(out).glob("TRAINER-*.log"))
        raise SystemExit("\n".join(log.read_text()[-2000:] for log in logs))


def network(paddle):
    dense = paddle.static.data("dense", [None, 13], "float32")
    slots = [paddle.static.data(f"C{i}", [None, 1], "int64", lod_level=1) for i in range(26)]
    label = paddle.static.data("label", [None, 1], "int64")
    first = paddle.nn.initializer.Uniform(-0.05, 0.05)
    table = paddle.ParamAttr(name="SparseFeatFactors", initializer=first)
    rows = [
        paddle.static.nn.sparse_embedding(slot, size=[1000001, WIDTH], param_attr=table)
        for slot in slots
    ]
    x = paddle.concat([paddle.reshape(row, [-1, WIDTH]) for row in rows] + [dense], axis=1)
    for _ in range(3):
        x = paddle.static.nn.fc(x, 400, activation="relu")
    probability = paddle.static.nn.fc(x, 2, activation="softmax")
    chosen = paddle.take_along_axis(probability, label, 1)
    loss = paddle.mean(-paddle.log(paddle.clip(chosen, 1e-7, 1.0)))
    _, _, states = paddle.static.auc(probability, label, num_thresholds=2**12)
    return [dense, *slots, label], loss, states[2:4]


def auc(paddle, histograms):
    """Area under the curve from the peer's histograms of scores, positives and negatives."""
    import numpy as np

    scope = paddle.static.global_scope()
    positive, negative = (
        np.array(scope.find_var(each.name).get_tensor()).ravel().astype("f8") for each in histograms
    )
    below = np.cumsum(negative) - negative
    return (positive * (below + negative / 2)).sum() / (positive.sum() * negative.sum())


def run(pattern, out):
    import paddle
    from paddle.distributed import fleet

    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    feeds, loss, histograms = network(paddle)
    adam = paddle.optimizer.Adam(1e-3, lazy_mode=True)
    fleet.distributed_optimizer(adam, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    files = sorted(glob.glob(pattern))[fleet.worker_index() :: fleet.worker_num()]
    rows = 0
    for path in files:
        with open(path, "rb") as file:
            rows += sum(1 for _ in file)
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=BATCH, thread_num=1, use_var=feeds, pipe_command="cat")
    dataset.set_filelist(files)
    start, processor_start = time.perf_counter(), time.process_time()
    executor.train_from_dataset(program=paddle.static.default_main_program(), dataset=dataset)
    result = {"rows": rows, "began": start, "seconds": time.perf_counter() - start}
    result["processor_seconds"] = time.process_time() - processor_start
    result["auc"] = auc(paddle, histograms)
    pathlib.Path(out, f"trainer-{fleet.worker_index()}.json").write_text(json.dumps(result))
    fleet.stop_worker()


if __name__ == "__main__":
    if sys.argv[1] == "launch":
        launch(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
    else:
        run(*sys.argv[2:])
