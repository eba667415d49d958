"""Traces and clusters: each published format is read whole, and a bad line is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.traces import REFERENCE, trace

from skep_scheduler.simulator.clusters import read_cluster
from skep_scheduler.simulator.readers import read
from skep_scheduler.simulator.speed import interpolated, read_profiles, read_typed_profiles
from skep_scheduler.simulator.workload import WorkloadError

SHOCKWAVE = "220_0.2_5_100_25_4_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace"


@pytest.mark.parametrize(
    ("path", "reader", "jobs"),
    [
        ("muri/trace1.csv", "muri", 1494),
        ("tiresias/60_job.csv", "tiresias", 60),
        ("tiresias/tf_job.csv", "tiresias", 2),
        ("elasticflow/ef/cluster10.csv", "elasticflow", 260),
        ("elasticflow/ef/195job.csv", "elasticflow", 195),
        ("elasticflow/artifact/philly_103959.csv", "elasticflow", 876),
        ("gavel/msr/seed=0/103959.trace", "gavel", 986),
        (f"shockwave/{SHOCKWAVE}", "shockwave", 220),
        ("chronus/trace_job_Philly_MIX2.csv", "chronus", 30_940),
        ("philly/sia_philly_82k.csv", "philly", 82_247),
        ("sia/workloads/newtrace/workload-1.csv", "sia", 960),
        ("alibaba/openb_pod_list_multigpu20.csv", "openb", 8_324),
    ],
)
def test_published_traces_are_read_whole(path: str, reader: str, jobs: int) -> None:
    found = read(trace(path))
    assert (found.format, len(found.jobs)) == (reader, jobs)
    assert len({job.id for job in found.jobs}) == jobs


def test_what_the_columns_of_the_traces_mean() -> None:
    first = read(trace("muri/trace1.csv")).jobs[1]
    assert (first.submit_s, first.gpus, first.iterations) == (201_694, 8, 8_787_693)
    assert first.stages_s == (0.435, 0.008, 0.0005)
    first = read(trace("elasticflow/artifact/philly_103959.csv")).jobs[1]
    assert (first.batch, first.deadline_s, first.iterations) == (64, 2_065_619, 26_446_831)
    kinds = [job.mode for job in read(trace("chronus/trace_job_Philly_MIX2.csv")).jobs]
    assert [kinds.count(kind) for kind in ("soft", "strict", "best")] == [18_525, 9_276, 3_139]
    first = read(trace(f"shockwave/{SHOCKWAVE}")).jobs[2]
    assert (first.model, first.batch, first.gpus) == ("ResNet-18 (batch size 256)", 256, 2)
    assert (first.mode, first.duration_s, first.submit_s) == ("accordion", 1593, 58)


SACCT = """JobID|User|Account|Submit|Elapsed|State|AllocTRES
1|ada|vision|2026-01-02T03:04:05|1-02:00:00|COMPLETED|billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4
1.batch||vision|2026-01-02T03:04:05|1-02:00:00|COMPLETED|cpu=8,gres/gpu=4
2|bob|text|2026-01-02T03:05:05|00:10:00|CANCELLED by 1000|gres/gpu:v100=2
3|bob|text|2026-01-02T03:06:05|00:10:00|COMPLETED|cpu=8
4|bob|text|2026-01-02T03:06:05|00:00:00|PENDING|
"""


def test_sacct_of_slurm(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    first, second = read(path).jobs
    assert (first.id, first.gpus, first.duration_s, first.vc) == ("1", 4, 93_600, "vision")
    assert (second.gpus, second.user, second.submit_s - first.submit_s) == (2, "bob", 60)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,x,1,vgg,9,1\n",
         "line 2, column submit_time: 'x' is not a number"),
        ("a\tb\tc\n", "line 1: 3 columns; a trace of Gavel has 7"),
        ("JobID|User\n1|a\n", "line 1: no column Submit"),
        ("JobID|Submit|Elapsed|AllocTRES\n1|2026-01-01|soon|gres/gpu=1\n", "is not [DAYS-]HH"),
        ("submit_s,duration_s,gpus\n2026-13-01,1,1\n", "'2026-13-01' is not a date"),
        ("submit_s,duration_s,gpus\nnan,1,1\n", "'nan' is not a number"),
        ("submit_s,duration_s,gpus\n0,inf,1\n", "'inf' is out of range"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    with pytest.raises(WorkloadError) as caught:
        read(path)
    assert wanted in caught.value.message
    assert caught.value.code == "bad_trace"


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorkloadError, match="not a text file"):
        read(path)


def test_clusters_by_shape_and_by_file(tmp_path: Path) -> None:
    shape = read_cluster("8x8xV100+4x4xA100")
    assert (shape.gpus, len(shape.node_sizes())) == (80, 12)
    own = tmp_path / "own.csv"
    own.write_text("nodes,gpus,model,vc\n2,8,V100,vision\n1,4,A100,text\n")
    assert read_cluster(str(own)).vcs == {"vision": [8, 8], "text": [4]}
    spec = read_cluster(str(trace("muri/cluster_n8g8.csv")))
    assert spec.node_sizes() == [8] * 8
    philly = read_cluster(str(trace("philly/philly_vc_nodes.csv")))
    assert (len(philly.vcs), philly.gpus) == (11, 352 * 8)
    assert read_cluster(str(trace("alibaba/openb_node_list_gpu_node.csv"))).gpus == 6_212


def test_a_cluster_of_hived() -> None:
    path = REFERENCE / "hived" / "configs" / "hived-config-1.yaml"
    if not path.exists():
        trace("../hived/configs/hived-config-1.yaml")
    assert read_cluster(str(path)).node_sizes() == [4] * 5


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("c.csv", "a,b\n1,2\n", "are none of a cluster's"),
        ("c.csv", "nodes,gpus,model\n2,x,V100\n", "line 2, column gpus: 'x' is not a number"),
        ("c.csv", "", "no rows"),
        ("c.yaml", "a: [", "not a configuration of HiveD"),
        ("c.yaml", "a: 1", "no nodes"),
    ],
)
def test_a_cluster_that_cannot_be_read(tmp_path: Path, name: str, text: str, wanted: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(WorkloadError) as caught:
        read_cluster(str(path))
    assert wanted in caught.value.message
    assert caught.value.code == "bad_cluster"


def test_throughputs_of_elasticflow_and_gavel() -> None:
    t4 = read_profiles(trace("elasticflow/throughputs_T4"))
    assert t4.rate("yolov3", 64, 4) == 1.3152121172616016
    assert 32 not in t4.sizes("yolov3", 64)  # it cannot run
    with pytest.raises(WorkloadError, match="no model 'gpt9'"):
        t4.rate("gpt9", 64, 4)
    gavel = read_typed_profiles(trace("gavel/simulation_throughputs.json"))
    small = ("ResNet-18 (batch size 16)", 1)
    assert gavel.alone["k80"][small] == 4.795294551566172
    assert gavel.beside["k80"][small, small] == (2.4081728540044867, 2.4081728540044867)


def test_sizes_between_two_known_ones_are_linear_in_the_logarithm() -> None:
    assert interpolated({1: 1.0, 4: 3.0}, 2) == 2.0
    assert interpolated({1: 1.0, 4: 3.0}, 16) == 3.0
