"""`skep templates`."""

from __future__ import annotations

import json

from tests.unit.client.test_cli_jobs import server, skep

__all__ = ["server"]  # a fixture
FILE = "protocolVersion: 2\nname: a\nparameters:\n  lr: 0.1  # of the optimiser\n  steps: 5\n"
TEMPLATE = {"name": "train", "title": "Train it", "text": FILE, "stars": 3, "owner": "bob"}


def test_templates_are_listed_by_their_words(server):
    asked = server.get("/templates").respond(json={"results": [TEMPLATE]})
    output = skep("templates", "--search", "pytorch", "--mine").output
    assert "train" in output
    assert "Train it" in output
    params = asked.calls[0].request.url.params
    assert (params["search"], params["mine"], "starred" in params) == ("pytorch", "true", False)


def test_a_template_is_printed_with_other_parameters(server):
    server.get("/templates/train").respond(json=TEMPLATE)
    assert skep("templates", "show", "train").output == FILE
    output = skep("templates", "show", "train", "-p", "lr=0.01", "-p", "steps=ten").output
    assert output == FILE.replace("0.1 ", "0.01 ").replace("steps: 5", 'steps: "ten"')
    refused = skep("templates", "show", "train", "-p", "rate=1")
    assert refused.exit_code == 2
    assert "parameters.rate" in refused.output


def test_a_file_is_published_and_starred(server, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(FILE)
    sent = server.post("/templates").respond(201, json=TEMPLATE)
    words = ("publish", "train", str(file), "--title", "Train it", "--vc", "vision")
    assert skep("templates", *words).exit_code == 0
    body = json.loads(sent.calls[0].request.content)
    assert (body["text"], body["virtual_cluster"]) == (FILE, "vision")
    server.put("/templates/train/star").respond(json=TEMPLATE)
    assert "3 stars" in skep("templates", "star", "train").output
