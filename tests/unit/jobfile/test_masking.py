"""No secret is in the text that others see, however the file is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from tests.support.openpai import job

from skep_jobfile import InvalidJobFile, masked, parse, published, renamed
from skep_jobfile.masking import MASK

SECRET = "S3cret"
REST = """\
prerequisites:
  - {type: dockerimage, name: image, uri: a}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 64, gpu: 0}  # a remark
    commands: [echo]
"""
HEAD = "protocolVersion: 2\nname: x  # its name\ntype: job\n"

STYLES = {
    "a block": "secrets:\n  p: S3cret\n  q: 'S3cret two'\n",
    "flow style": "secrets: {p: S3cret, q: [S3cret, {r: S3cret}]}\n",
    "flow style over lines": "secrets: {\n  p: S3cret,\n\n  q: S3cret }\n",
    "an indented block": "secrets:\n        p:\n            q: S3cret\n",
    "literal text": "secrets:\n  p: |\n    -----BEGIN S3cret\n    S3cret\n\n    -----END\n",
    "folded text at its end": "secrets:\n  p: >+\n    S3cret\n    S3cret\n\n\n",
    "plain text over lines": "secrets:\n  p: S3cret\n    S3cret\n    S3cret\n",
    "quotes with escapes": 'secrets:\n  p: "S3cret \\\n    S3cret\\n"\n',
    "a remark within": "secrets:\n  # S3cret\n  p: S3cret  # S3cret\n  # S3cret\n",
    "an anchor within": "secrets:\n  p: &a S3cret\n  q: *a\n",
    "a tag": "secrets:\n  p: !!str S3cret\n",
    "a name with a value and no space": "secrets: {p:S3cret}\n",
    "a quoted key": '"secrets": {"p": "S3cret"}\n',
    "a question mark": "? secrets\n: p: S3cret\n",
    "merged into the file": "<<: {secrets: {p: S3cret}}\n",
    "merged, and shadowed": "secrets: {p: S3cret}\n<<: {secrets: {q: S3cret}}\n",
}


@pytest.mark.parametrize("style", STYLES)
def test_what_has_secrets_is_not_for_others_to_start_from(style: str) -> None:
    assert published(parse(HEAD + STYLES[style] + REST)[1]) is None


def test_names_of_secrets_in_json_are_for_others() -> None:
    text = json.dumps({**job(), "secrets": {"hub": {"token": ""}, "other": MASK}})
    assert published(parse(text)[1]) == text
    refused = json.dumps({**job(), "secrets": {"hub": {"token": SECRET}}})
    assert published(parse(refused)[1]) is None


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "at the end"])
def test_secrets_are_masked_where_they_stand_and_all_else_stays(style: str, last: bool) -> None:
    text = HEAD + (REST + STYLES[style] if last else STYLES[style] + REST)
    shown = masked(parse(text)[1])
    assert SECRET not in shown
    assert "# its name" in shown
    assert "# a remark" in shown
    again = parse(shown)[0]
    assert set(again.secrets.values()) <= {MASK}
    assert again.model_copy(update={"secrets": {}}) == parse(text)[0].model_copy(
        update={"secrets": {}}
    )


def test_a_file_without_secrets_is_the_very_text() -> None:
    assert masked(parse(HEAD + REST)[1]) == HEAD + REST


@pytest.mark.parametrize("indent", [None, 0, 2, 8])
def test_json_is_masked_and_stays_json(indent: int | None) -> None:
    text = json.dumps(job(secrets={"p": SECRET, "é\U0001f600": {"q": SECRET}}), indent=indent)
    shown = masked(parse(text)[1])
    assert SECRET not in shown
    assert json.loads(shown) == job(secrets={"p": MASK, "é\U0001f600": MASK})


def test_a_password_in_the_open_is_masked_and_one_out_of_secrets_is_reported() -> None:
    images = [
        {"type": "dockerimage", "name": "a", "uri": "a", "auth": {"password": SECRET}},
        {"type": "dockerimage", "name": "b", "uri": "b", "auth": {"password": "<% $secrets.p %>"}},
    ]
    data = job(secrets={"p": SECRET}, role={"dockerImage": "a"})
    for text in (json.dumps(data | {"prerequisites": images}), _yaml(data, images)):
        shown = parse(masked(parse(text)[1]))[1].data
        passwords = [image["auth"]["password"] for image in shown["prerequisites"]]
        assert passwords == [MASK, "<% $secrets.p %>"]


def _yaml(data: Any, images: list[Any]) -> str:
    written = {**data, "prerequisites": "IMAGES"}
    auth = "\n".join(f"  - {json.dumps(image)}" for image in images)
    lines = [f"{key}: {json.dumps(value)}" for key, value in written.items()]
    return "\n".join(lines).replace('"IMAGES"', "\n" + auth)


def test_a_login_that_two_images_share_by_an_alias_is_masked() -> None:
    text = (HEAD + REST).replace(
        "  - {type: dockerimage, name: image, uri: a}\n",
        "  - {type: dockerimage, name: image, uri: a, auth: &a {password: S3cret}}\n"
        "  - {type: dockerimage, name: other, uri: b, auth: *a}\n",
    )
    assert SECRET not in masked(parse(text)[1])


SHARED = {
    "its anchor outside": "parameters: {p: &a S3cret}\nsecrets: {p: *a}\n",
    "its anchor within": "secrets: {p: &a S3cret}\nparameters: {p: *a}\n",
    "all of it": "parameters: &a {p: S3cret}\nsecrets: *a\n",
    "merged": "parameters: &a {p: S3cret}\nsecrets: {<<: *a}\n",
    "merged the other way": "secrets: &a {p: S3cret}\nparameters: {<<: *a}\n",
    "merged into the file": "parameters: &a {secrets: {p: S3cret}}\n<<: *a\n",
    "as a key": "secrets: {p: &a S3cret}\nparameters: {*a : 1}\n",
    "as a key at the top": "secrets: {p: &a S3cret}\n*a : 1\n",
}


@pytest.mark.parametrize("case", SHARED)
def test_a_secret_that_an_alias_would_show_is_refused_without_being_notified(case: str) -> None:
    with pytest.raises(InvalidJobFile) as refused:
        parse(HEAD + SHARED[case] + REST)
    (problem,) = refused.value.problems
    assert problem.code == "shared_secret"
    assert SECRET not in str(problem)


def test_a_clone_is_renamed_in_place() -> None:
    text = HEAD + REST
    assert renamed(parse(text)[1], "y-2") == text.replace("name: x ", 'name: "y-2" ')
    flow = json.dumps(job())
    assert json.loads(renamed(parse(flow)[1], "y")) == job(name="y")


# Letters of secrets that no other part of the files has, so that a trace is a leak.
TEXTS = st.text(alphabet="ЖЗИЙКЛ \n\t:#-{}[]&*!|>'\"%@`,", min_size=1, max_size=30)
VALUES = st.recursive(
    TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["p", "q", "r s"]), VALUES, min_size=1), st.booleans())
def test_no_message_of_any_secret_is_shown(secrets: dict[str, Any], flow: bool) -> None:
    import io

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = flow
    out = io.StringIO()
    yaml.dump({**job(), "secrets": secrets}, out)
    for text in (out.getvalue(), json.dumps({"secrets": secrets, **job()}, ensure_ascii=False)):
        _shows_nothing(text)


@given(st.dictionaries(st.sampled_from("pq"), VALUES, min_size=1), st.data())
def test_no_message_of_any_secret_is_informed_of_a_damaged_file(secrets: Any, data: Any) -> None:
    text = json.dumps({**job(), "secrets": secrets}, ensure_ascii=False, indent=1)
    place = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 3))
    put = data.draw(st.text(alphabet="{}[]:,\"'\n #&*-%a", max_size=2))
    _shows_nothing(text[:place] + put + text[place + length :])


def _shows_nothing(text: str) -> None:
    try:
        _, document = parse(text)
    except InvalidJobFile as error:
        shown = str(error) + str([problem.as_dict() for problem in error.problems])
    else:
        shown = masked(document) if "secrets" in document.data else ""
    assert not set(shown) & set("ЖЗИЙКЛ"), shown
