"""From the engine's words about layers and errors to ours."""

from __future__ import annotations

import pytest

from skep_agent.protocol import ImageSpec
from skep_agent.runtimes.docker_engine import EngineError
from skep_agent.runtimes.docker_pull import PullProgress, pull_failure, split_reference


def line(layer: str, status: str, current: int = 0, total: int = 0) -> dict:
    return {
        "id": layer,
        "status": status,
        "progressDetail": {"current": current, "total": total} if total else {},
    }


def percents(lines: list[dict]) -> list[int]:
    progress = PullProgress()
    return [progress.percent for entry in lines if progress.see(entry)]


def test_a_layer_counts_by_its_size():
    lines = [
        line("big", "Pulling fs layer"),
        line("small", "Pulling fs layer"),
        line("small", "Downloading", 10, 10),
        line("big", "Downloading", 0, 990),
        line("big", "Downloading", 495, 990),
        line("big", "Download complete"),
        line("big", "Extracting", 990, 990),
        line("big", "Pull complete"),
        line("small", "Pull complete"),
    ]
    assert percents(lines) == [40, 80, 99]  # each number once, also when all layers are done


def test_layers_that_are_here_already_do_not_count():
    lines = [
        line("a", "Already exists"),
        line("b", "Pulling fs layer"),
        line("b", "Downloading", 50, 100),
        line("b", "Pull complete"),
    ]
    assert percents(lines) == [40, 99]


def test_the_number_never_falls_when_another_layer_turns_out_to_be_large():
    lines = [
        line("a", "Pulling fs layer"),
        line("b", "Pulling fs layer"),
        line("a", "Downloading", 100, 100),
        line("b", "Downloading", 1, 10**9),
        line("a", "Pull complete"),
        line("b", "Pull complete"),
    ]
    assert percents(lines) == [40, 99]


def test_bytes_are_counted_and_the_total_is_said_once_every_layer_is_known():
    progress, seen = PullProgress(), []
    for entry in [
        line("a", "Pulling fs layer"),
        line("b", "Pulling fs layer"),
        line("tiny", "Pulling fs layer"),
        line("a", "Downloading", 100, 400),
        line("tiny", "Download complete"),
        line("b", "Downloading", 50, 600),
        line("a", "Download complete"),
        line("b", "Extracting", 10, 600),
    ]:
        progress.see(entry)
        seen.append((progress.progress.done, progress.progress.total))
    assert seen[3:] == [(100, 0), (100, 0), (150, 1000), (450, 1000), (1000, 1000)]


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("busybox", ("busybox", "latest")),
        ("a/b:1", ("a/b", "1")),
        ("127.0.0.1:5000/a", ("127.0.0.1:5000/a", "latest")),
        ("127.0.0.1:5000/a:2", ("127.0.0.1:5000/a", "2")),
        ("a@sha256:00", ("a", "sha256:00")),
        ("r:5000/a:1@sha256:00", ("r:5000/a", "sha256:00")),
    ],
)
def test_a_reference_has_a_name_and_a_tag_or_digest(reference, parts):
    assert split_reference(reference) == parts


HUB = "pull access denied for x, repository does not exist or may require 'docker login': denied"


@pytest.mark.parametrize(
    ("message", "username", "code"),
    [
        ("manifest for x:1 not found: manifest unknown: manifest unknown", "", "image_not_found"),
        (HUB, "", "image_not_found"),
        (HUB, "me", "image_auth"),
        ("unauthorized: authentication required", "me", "image_auth"),
        ("Get https://r/v2/: no basic auth credentials", "", "image_auth"),
        ("Get https://r/v2/: dial tcp: connect: connection refused", "", "image_pull"),
        ("toomanyrequests: You have reached your pull rate limit", "", "image_pull"),
        ("write /var/lib/docker/tmp/x: no space left on device", "", "disk_full"),
    ],
)
def test_the_registrys_words_become_a_code(message, username, code):
    image = ImageSpec(reference="x:1", username=username)
    assert pull_failure(EngineError(500, message), image).code == code
