"""The benchmark itself: it runs, both sides take the same steps, and its ratios are what it says."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_training_side_by_side(tmp_path: Path, threads: None) -> None:
    import bench

    out = tmp_path / "bench.json"
    out.write_text(json.dumps({"decode": [1], "skipped": {"x": "y"}}))
    settings = ["data.train=300", "data.valid=20", "data.test=20", "data.long=20", f"cache_dir={tmp_path}"]
    settings += ["trainer.precision=32-true"]
    options = ["--rounds", "2", "--warmup", "1", "--steps", "1", "--step-tokens", "150", "--precision", "fp32"]
    options += ["--out", str(out)]
    bench.main(["train", "--peers", "torch,joey", "--sizes", "smallest", *options, "--set", *settings])

    found = json.loads(out.read_text())
    assert found["decode"] == [1], "other commands' sections stay"
    assert "joey" in found["skipped"]
    assert "x" in found["skipped"]
    plain, lean = found["train"]
    assert (plain["peer"], lean["peer"]) == ("torch fp32", "torch-our-dropout fp32")
    for row in found["train"]:
        assert row["size"] == "smallest"
        assert row["rounds"] == 2
        low, high = row["spread"]["ratio"]
        assert 0 < low <= row["ratio"] <= high
        assert row["spread"]["ours"][0] <= row["ours"] <= row["spread"]["ours"][1]
    (limit,) = found["limit"]
    assert limit["matmul_tokens_per_second"] > limit["heed"]


def test_comparison_takes_ratios_round_by_round() -> None:
    from benchmark.rounds import comparison

    # The machine is half as fast in the second round, for both.
    found = comparison([30.0, 15.0, 32.0], [20.0, 10.0, 16.0])
    assert found["ratio"] == 1.5
    assert found["ours"] == 30.0
    assert found["spread"]["ratio"] == (1.5, 2.0)


def test_products_are_all_counted_with_their_orientation() -> None:
    from benchmark.matmul import products_of

    x, weight = torch.randn(3, 5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    seen = products_of(lambda: torch.nn.functional.linear(x, weight).sum().backward())
    # x Wᵀ forward; backward G W and Gᵀ x.
    assert {(a, b): count for (a, b, *_), count in seen.items()} == {
        ((3, 5), (5, 7)): 1,
        ((3, 7), (7, 5)): 1,
        ((7, 3), (3, 5)): 1,
    }


def test_planning_needs_a_rate_and_measures_the_whole_corpus(tmp_path: Path) -> None:
    import bench

    from heed.errors import HeedError

    out = tmp_path / "bench.json"
    plan = ["plan", "--pairs", "50000", "--batch-tokens", "2000", "--out", str(out)]
    with pytest.raises(HeedError, match=r"bench\.py train"):
        bench.main(plan)
    bench.main([*plan, "--rate", "5000"])
    small, whole = json.loads(out.read_text())["plan"]
    assert (small["pairs"], whole["pairs"]) == (5_000, 50_000)
    assert whole["steps"] == pytest.approx(10 * small["steps"], rel=0.1)
