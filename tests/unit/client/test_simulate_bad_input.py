"""`skep simulate` answers every bad file with a code and a sentence, and never with a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skep_client.cli import app

HEADER = "id,submit_s,duration_s,gpus\n"
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
    "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
)


def refusal(*args: str) -> tuple[str, str]:
    """Return the code and the message of a refusal."""
    result = CliRunner().invoke(app, ["simulate", *args, "--json"])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    problem = json.loads(result.stderr)
    return problem["code"], problem["message"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        (HEADER, "no jobs"),
        ("foo,bar\n1,2\n", "no column submit_s"),
        (HEADER + "a,-5,10,1\n", "line 2, column submit_s: '-5' is out of range"),
        (HEADER + "a,nan,10,1\n", "column submit_s: 'nan' is not a number"),
        (HEADER + "a,1e300,10,1\n", "column submit_s: '1e300' is out of range"),
        (HEADER + "a,2026-13-45,10,1\n", "is not a date"),
        (HEADER + "a,0,10,1\nb,0,-10,1\n", "line 3, column duration_s: '-10' is out of range"),
        (HEADER + "a,0,0,1\n", "column duration_s"),
        (HEADER + "a,0,inf,1\n", "column duration_s: 'inf' is out of range"),
        (HEADER + "a,0,1e300,1\n", "column duration_s: '1e300' is out of range"),
        (HEADER + "a,0,10,0\n", "column gpus: '0' is out of range"),
        (HEADER + "a,0,10,1.5\n", "column gpus: '1.5' is out of range"),
        (HEADER + "a,0,10,100000000000000000000\n", "column gpus"),
        (HEADER + "a,0\n", "column duration_s: '' is not a number"),
        (HEADER + "a" * 200_000 + ",0,10,1\n", "not a CSV file"),
        (HEADER.strip() + ",priority\na,0,10,1,1e12\n", "column priority"),
        (HEADER.strip() + ",deadline_s\na,0,10,1,inf\n", "column deadline_s"),
        (HEADER.strip() + ",iterations\na,0,10,1,-5\n", "column iterations"),
        ("a\tb\n", "a trace of Gavel has 7"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line_and_column(
    tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(content)
    code, message = refusal("--trace", str(path))
    assert code == "bad_trace"
    assert words in message
    assert str(path) in message


def test_binary_files_and_folders_are_no_traces_and_no_clusters(tmp_path: Path) -> None:
    binary, folder = tmp_path / "binary.csv", tmp_path / "folder.csv"
    binary.write_bytes(bytes(range(256)))
    folder.mkdir()
    for path, words in ((binary, "not a text file"), (folder, "Is a directory")):
        for option, code in (("--trace", "bad_trace"), ("--cluster", "bad_cluster")):
            found, message = refusal(option, str(path))
            assert found == code
            assert words in message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("c.csv", "", "no rows"),
        ("c.csv", "a,b\n1,2\n", "none of a cluster's"),
        ("c.csv", "nodes,gpus,model\n-1,8,V100\n", "column nodes"),
        ("c.csv", "nodes,gpus,model\n2,8\n", "column model: it is empty"),
        ("c.csv", "nodes,gpus,model\n2,8," + "a" * 200_000 + "\n", "not a CSV file"),
        ("c.csv", "nodes,gpus,model\n100000,100000,V100\n", "at most 1,000,000"),
        ("c.yaml", "", "not a configuration of HiveD"),
        ("c.yaml", "a: [", "not a configuration of HiveD"),
        ("c.json", "[]", "not a configuration of HiveD"),
    ],
)
def test_a_bad_cluster_is_refused(tmp_path: Path, name: str, content: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    code, message = refusal("--jobs", "5", "--policy", "fifo", "--cluster", str(path))
    assert code == "bad_cluster"
    assert words in message


def test_a_cluster_of_too_many_gpus_is_refused_before_it_takes_memory() -> None:
    code, message = refusal("--jobs", "5", "--cluster", "99999999x99999999xV100")
    assert code == "bad_cluster"
    assert "at most 1,000,000" in message


def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    code, message = refusal("--jobs", "5", "--policy", "fifo", "--html", str(tmp_path))
    assert code == "not_written"
    assert str(tmp_path) in message


@pytest.mark.parametrize("policy", ["srtf", "tiresias-l", "antman"])
def test_a_job_larger_than_the_cluster_of_an_artifact_is_refused(
    tmp_path: Path, policy: str
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(MURI + "0,128,0,1000,resnet18,128,927000,0,886,703,62,17,0\n")
    code, message = refusal("--preset", "muri-n8g8", "--trace", str(path), "--policy", policy)
    assert code == "bad_trace"
    assert "128 GPUs" in message


@pytest.mark.parametrize(
    ("policy", "row", "words"),
    [
        ("muri-s", "0,1,0,1000,x,128,927000,0,886,0,0,0,0", "must be above 0: muri shares"),
        ("antman", "0,1,0,1000,x,128,927000,0,886,5,0,0,1", "must be above 0: antman shares"),
        ("muri-l", "0,12,0,1000,x,128,927000,0,886,5,1,2,0", "no whole nodes"),
        ("srsf", "0,12,0,1000,x,128,927000,0,886,5,1,2,0", "no whole nodes"),
    ],
)
def test_a_job_that_the_simulator_of_muri_cannot_run_is_refused(
    tmp_path: Path, policy: str, row: str, words: str
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(MURI + row + "\n")
    code, message = refusal("--preset", "muri-n8g8", "--trace", str(path), "--policy", policy)
    assert code == "bad_trace"
    assert "job 0" in message
    assert words in message


def test_an_unknown_parameter_of_muri_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(MURI + "0,1,0,1000,resnet18,128,927000,0,886,703,62,17,0\n")
    args = ("--preset", "muri-n8g8", "--trace", str(path), "--policy", "muri-s:packing=3")
    assert refusal(*args)[0] == "bad_policy_parameter"


def test_what_is_out_of_range_says_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(HEADER + "a,0,-5,1\n")
    assert "it has to be a number above 0" in refusal("--trace", str(path))[1]
    path.write_text(HEADER + "a,0,5,0.5\n")
    assert "a whole number of at least 1" in refusal("--trace", str(path))[1]
    path.write_text("")
    assert "it needs a header" in refusal("--trace", str(path))[1]


def test_jobs_whose_ids_collide_with_a_number_behind_them_all_run(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(HEADER + "a,0,10,1\na#2,1,10,1\na,2,20,2\na,3,5,1\n")
    for policy in ("fifo", "priority_ageing"):
        args = ["simulate", "--trace", str(path), "--policy", policy, "--json"]
        line = json.loads(CliRunner().invoke(app, args).stdout)
        assert (line["jobs"], line["finished"]) == (4, 4)


def test_the_native_preset_makes_jobs_up() -> None:
    args = ["simulate", "--preset", "native", "--jobs", "5", "--policy", "fifo", "--json"]
    assert json.loads(CliRunner().invoke(app, args).stdout)["finished"] == 5
