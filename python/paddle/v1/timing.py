"""`--job=time`: how long batches take, without saving anything."""

import time

from paddle.v1 import figures
from paddle.v1.log import log
from paddle.v1.session import Session
from paddle.v1.training import load_model

# Batches before the clock starts, in which threads and memory settle.
WARM_UP = 10
# Batches that are measured unless --test_period says how many.
MEASURED = 100


def run(session: Session) -> None:
    """Computes and updates on batches of the data, and logs how fast."""
    data = session.require_train()
    load_model(session)
    native = session.native
    wanted = session.command.test_period or MEASURED
    period = session.command.log_period or wanted
    native.start_pass()
    seconds, samples, batches, since = 0.0, 0, 0, 0.0
    pass_id = 0
    while batches < WARM_UP + wanted:
        before = batches
        for batch in data.reader(pass_id)():
            begin = time.perf_counter()
            native.forward_backward(batch)
            native.update()
            took = time.perf_counter() - begin
            batches += 1
            if batches <= WARM_UP:
                continue
            seconds, since = seconds + took, since + took
            samples += data.samples
            measured = batches - WARM_UP
            if measured % period == 0:
                log.info(f" Batch={measured} ms_per_batch={figures.number(1000 * since / period)}")
                since = 0.0
            if measured == wanted:
                break
        if batches == before:
            break
        pass_id += 1
    measured = max(batches - WARM_UP, 0)
    if measured == 0:
        log.warning(f"there were only {batches} batches; the first {WARM_UP} are not measured")
        return
    log.info(
        f"time: batches={measured} samples={samples} "
        f"ms_per_batch={figures.number(1000 * seconds / measured)} "
        f"samples_per_second={figures.number(samples / seconds)}"
    )
