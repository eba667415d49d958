"""Learned policies: training, their weights in a file, and the guard around them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skep_scheduler import policies
from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.policies import PolicyError
from skep_scheduler.policies.dl2 import Dl2
from skep_scheduler.policies.elastic import ElasticFacts
from skep_scheduler.policies.learned import Guarded, by_key
from skep_scheduler.policies.mlf_rl import MlfRl
from skep_scheduler.policies.mlfs import Mlfs
from skep_scheduler.policies.network import Network
from skep_scheduler.policies.weights import Weights, dump, load
from skep_scheduler.simulator.command import (
    SimulateRequest,
    WorkloadError,
    execute,
    plan_runs,
    train_weights,
)
from skep_scheduler.simulator.learn import Training, train
from skep_scheduler.simulator.presets.elastic_native import TRAINED

RULES = (Dl2(), MlfRl())
SHORT = Training(gpus=4, jobs=8, rounds=4, runs=2, lessons=2, checks=2)
SMALL = {"gpus": 4, "jobs": 6, "rounds": 1, "seed": 3}


def job(name: str, **facts: Any) -> ElasticFacts:
    given = {"submitted_at": 0.0, "gpus": 1, "rate": float, "largest": 4, "left": 600.0}
    return ElasticFacts(name, **(given | {"total": 600.0} | facts))


def simulate(policy: str, **request: Any) -> dict[str, Any]:
    made = {"jobs": 30, "cluster": "1x8xV100"} | request
    (run,) = plan_runs(SimulateRequest(policies=(policy,), **made))
    line = execute(run)[0]
    del line["wall_s"]
    return line


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_training_is_better_than_chance_and_repeats_by_its_seed(rule: Any) -> None:
    trained = train(rule, SHORT)
    times = trained.card["mean_jct_s"]
    assert times["learned"] < times["untrained"]
    assert times["learned"] <= times["after_imitation"]
    assert dump(train(rule, SHORT)) == dump(trained)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_weights_come_back_from_their_file(rule: Any) -> None:
    weights = Weights(rule.name, rule.features, Network.random(len(rule.features), 1), {"a": 1})
    data = dump(weights)
    found = load(data, "file", rule.name, rule.features)
    assert found.card == {"a": 1}
    for one, other in zip(found.network.layers, weights.network.layers, strict=True):
        assert (one == other).all()
    assert dump(found) == data


def changed(data: bytes, header: dict[str, Any] | None = None, **layers: Any) -> bytes:
    """Return the file with other fields of its header, or other arrays."""
    with np.load(io.BytesIO(data)) as arrays:
        parts = {name: arrays[name] for name in arrays.files}
    found = json.loads(bytes(parts["header"])) | (header or {})
    parts["header"] = np.frombuffer(json.dumps(found).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **(parts | layers))
    return file.getvalue()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"", "no file of weights"),
        (lambda data: b"not a zip file", "no file of weights"),
        (lambda data: data[:-200], "no file of weights"),
        (lambda data: changed(data, {"format": 2}), "its format is 2 and not 1"),
        (lambda data: changed(data, {"policy": "mlf_rl"}), "weights of 'mlf_rl' and not of dl2"),
        (lambda data: changed(data, {"features": ["one"]}), "has other features"),
        (lambda data: changed(data, {"card": {"mean": 1}}), "its hash is not"),
        (lambda data: changed(data, layer1=np.ones(16)), "its hash is not"),
        (lambda data: changed(data, layer1=np.array([{}], dtype=object)), "no file of weights"),
        (lambda data: changed(data, layer1=np.ones((2, 2))), "no file of weights"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(tmp_path: Path, change: Any, why: str) -> None:
    rule = Dl2()
    whole = dump(Weights(rule.name, rule.features, Network.random(len(rule.features), 1)))
    path = tmp_path / "weights.npz"
    path.write_bytes(change(whole))
    with pytest.raises(PolicyError, match=why) as caught:
        simulate("dl2", weights=path)
    assert caught.value.code == "bad_weights"


def test_weights_of_another_shape_or_not_finite_are_refused() -> None:
    rule = Dl2()
    for network, why in (
        (Network.random(3, 1), "have the shapes"),
        (Network([layer * np.nan for layer in Network.random(12, 1).layers]), "not finite"),
    ):
        data = dump(Weights(rule.name, rule.features, network))
        with pytest.raises(PolicyError, match=why):
            load(data, "file", rule.name, rule.features)


def test_scores_that_are_not_finite_leave_the_decision_to_the_fallback() -> None:
    jobs = [job("a"), job("b")]
    broken = Network([layer * np.nan for layer in Network.random(12, 1).layers])
    sizes = Guarded(Dl2(), broken).decide(jobs, 4, 0.0)
    assert sizes.fell_back == "scores are not finite"
    assert sizes.gpus == Dl2().sizes(jobs, 4, 0.0, by_key) == {"a": 2, "b": 2}


def test_jobs_unlike_those_in_training_are_the_fallbacks() -> None:
    jobs = [job("a", least=2), job("b")]
    sizes = Guarded(Dl2(), Network.random(12, 1)).decide(jobs, 4, 0.0)
    assert "a needs more than one GPU" in sizes.fell_back
    assert sum(sizes.gpus.values()) == 4


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_job_that_starves_comes_first(rule: Any) -> None:
    """Whatever the network wants: here each of 20 random ones."""
    now = rule.slot_s * 10_000
    jobs = [job("late"), *(job(f"new-{n}", submitted_at=now) for n in range(8))]
    for seed in range(20):
        guarded = Guarded(rule, Network.random(len(rule.features), seed))
        sizes = guarded.decide(jobs, 2, now)
        assert sizes.gpus["late"] >= 1
        assert sizes.fell_back == "a job starved"
        assert sum(sizes.gpus.values()) <= 2


def test_the_fallback_of_mlf_rl_is_the_order_of_mlfs() -> None:
    jobs = [job(f"job-{n}", left=60.0 + 170 * (n * 5 % 7), gpus=1 + n % 3) for n in range(7)]
    assert MlfRl().sizes(jobs, 6, 0.0, by_key) == dict(Mlfs().decide(jobs, 6, 0.0).gpus)


@pytest.mark.parametrize("policy", ["dl2", "mlf_rl"])
def test_a_learned_policy_runs_with_the_weights_that_are_shipped(policy: str) -> None:
    line = simulate(policy)
    assert line == simulate(policy)
    assert (line["experimental"], line["finished"]) == (True, 30)
    assert line["fallbacks"] >= 0
    assert (TRAINED / f"{policy}.npz").stat().st_size < 200_000


def test_weights_that_were_trained_on_a_trace_are_used(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    rows = [f"j{n},{n * 90},{200 + n * 130 % 900},{1 + n % 2}" for n in range(24)]
    trace.write_text("\n".join(["id,submit_s,duration_s,gpus", *rows, ""]))
    data, card = train_weights("dl2", trace, SMALL)
    assert card["training"]["given_traces"] == 4
    path = tmp_path / "weights.npz"
    path.write_bytes(data)
    assert simulate("dl2", trace=trace, weights=path)["finished"] == 24
    with pytest.raises(WorkloadError, match="24 jobs are too few"):
        train_weights("dl2", trace, SMALL | {"jobs": 24})
    with pytest.raises(PolicyError, match="'fifo' is no learned policy"):
        train_weights("fifo", trace, SMALL)


@pytest.mark.parametrize("policy", ["dl2", "mlf_rl"])
def test_a_virtual_cluster_cannot_choose_a_learned_policy(policy: str) -> None:
    with pytest.raises(PolicyError, match="it is experimental") as caught:
        policies.make(PolicyChoice(policy), DEFAULTS)
    assert caught.value.code == "policy_simulated_only"
