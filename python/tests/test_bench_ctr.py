"""The CTR benchmark's own arithmetic: its data, its profile, and the model of how a job scales."""

import pathlib
import sys

import numpy as np
import pytest

CTR = pathlib.Path(__file__).resolve().parents[2] / "bench" / "ctr"


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    """Its modules import one another by their plain names."""
    for folder in (CTR.parent, CTR):
        monkeypatch.syspath_prepend(str(folder))
    yield
    for name in ("benchmark", "generate", "ours", "sampling", "scaling"):
        sys.modules.pop(name, None)


def test_text_and_arrays_have_the_same_rows(tmp_path):
    import generate

    generate.click(50, 3, tmp_path, seed=5)
    rows = [line.split() for line in (tmp_path / "part-00003").read_text().splitlines()]
    arrays = np.load(tmp_path / "arrays-00003.npz")
    assert len(rows) == 50 and all(len(row) == 1 + 13 + 2 * 26 + 2 for row in rows)
    table = np.array(rows, dtype="f8")
    assert (table[:, 0] == 13).all() and (table[:, 14:66:2] == 1).all()
    assert np.allclose(table[:, 1:14], arrays["dense"], atol=1e-6)
    assert (table[:, 15:66:2] == arrays["ids"]).all()
    assert (table[:, 67] == arrays["label"]).all()


def test_filling_lines_have_every_id_once(tmp_path):
    import generate

    for part in range(2):
        generate.rows(26 * 10, part, tmp_path)
    lines = [path.read_text().splitlines() for path in sorted(tmp_path.glob("part-*"))]
    ids = [int(each) for part in lines for line in part for each in line.split()[15:66:2]]
    assert sorted(ids) == list(range(2 * 260))


def test_the_rows_of_a_partial_batch_are_counted_as_they_are():
    import ours

    from paddle.v2 import event

    clock = ours.Clock()
    clock(event.BeginPass(0))
    for number, samples in enumerate([512, 512, 100]):
        clock(event.EndIteration(0, number, 0.5, {}, None, samples))
    clock(event.EndPass(0, {"auc": 0.5}, None))
    assert clock.rows == 1124


COSTS = {"trainer_seconds": 50e-6, "server_seconds": 10e-6, "bytes": 8e3, "request_seconds": 2e-5}


@pytest.mark.parametrize("trainers", [1, 2, 100, 1000])
def test_servers_of_a_plan_are_not_too_busy(trainers):
    import scaling

    job = scaling.plan(scaling.Costs(**COSTS), trainers)
    busy = trainers * max(job.service_seconds, job.wire_seconds) / job.step_seconds
    assert busy <= scaling.BUSY_MAX
    assert job.servers == 1 or trainers > 1


def test_a_trainer_alone_is_as_fast_as_on_paper(monkeypatch):
    import scaling

    monkeypatch.setattr(scaling, "VARIATION", 0.0)
    costs = scaling.Costs(**COSTS)
    job = scaling.plan(costs, 1)
    simulated = scaling.simulate(costs, job, is_sync=False, steps=1000)
    assert simulated == pytest.approx(job.rate, rel=0.1)


def test_waiting_for_the_slowest_trainer_costs_speed():
    import scaling

    costs = scaling.Costs(**COSTS)
    job = scaling.plan(costs, 100)
    free, in_step = (scaling.simulate(costs, job, is_sync) for is_sync in (False, True))
    assert 0.3 * free < in_step < free <= 1.1 * job.rate


def test_a_request_that_would_be_a_large_part_of_a_step_is_refused():
    import scaling

    from harness.rounds import Rounds

    answer = {"trainer seconds": 50e-6, "pserver seconds": 10e-6, "bytes": 8e3}
    rounds = Rounds({"ours": [answer]})
    assert scaling.Costs.of(rounds, "ours", 2e-4).request_seconds == 2e-4
    with pytest.raises(ValueError, match="1318 µs would be 4% of a step"):
        scaling.Costs.of(rounds, "ours", 1318e-6)


def test_servers_are_charged_for_the_pass_and_not_for_their_start():
    import benchmark

    moments = [(10.0, {}), (11.0, {"pserver": 2.0}), (13.0, {"pserver": 4.0, "trainer": 9.0})]
    assert benchmark.server_seconds(moments, 11.5, 12.5) == pytest.approx(1.0)


def test_samples_are_counted_between_the_first_step_and_the_last():
    import sampling

    lines = [
        "  python  1.0:   7f00 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)",
        "engine-0  2.0:   7f00 gemm_f32::microkernel::avx512f::f32::x4x6 (/x/_native.abi3.so)",
        "  pserver-port  2.5:   55aa table::store::sparse::SparseTable::read (/x/paddle)",
        "engine-0  3.0:   ffff clear_page_erms ([kernel.kallsyms])",
        "  python  4.0:   7f00 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)",
    ]
    assert dict(sampling.count(lines)) == {
        ("trainers: engine", "matrix products"): 1,
        ("server", "table and optimizer"): 1,
        ("trainers: engine", "clearing and mapping pages"): 1,
    }
