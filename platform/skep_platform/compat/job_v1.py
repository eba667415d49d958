"""Jobs as version 1 of OpenPAI described them, with task roles as a list, written as a job file of
version 2. The clients of version 1 send them as JSON or as a form."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request

from skep_platform.compat.base import Fields
from skep_platform.core.errors import SkepError
from skep_platform.core.parsers import TextParser, body_text

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 10_000
DEEPEST = 6  # brackets of one name in a form
LARGEST = 2**31 - 1
FOLDERS = {"dataDir": "PAI_DATA_DIR", "codeDir": "PAI_CODE_DIR", "outputDir": "PAI_OUTPUT_DIR"}


class JobFormParser(TextParser):
    """The text of a form, which a job of version 1 may be."""

    media_type = FORM
    what, most, too_large = "A job file", settings.SKEP_MAX_SPEC_BYTES, "spec_too_large"


class WholeField(serializers.IntegerField):
    def __init__(self, least: int = 0, **more: Any) -> None:
        super().__init__(min_value=least, max_value=LARGEST, **more)


class TextField(serializers.CharField):
    def __init__(self, **more: Any) -> None:
        super().__init__(max_length=100_000, trim_whitespace=False, **more)


class OldPortFields(Fields):
    label = TextField()  # type: ignore[assignment]
    portNumber = WholeField(least=1)


class OldRoleFields(Fields):
    name = TextField()
    taskNumber = WholeField(least=1, default=1)
    cpuNumber = WholeField(default=1)
    memoryMB = WholeField(default=1024)
    gpuNumber = WholeField(default=0)
    shmMB = WholeField(required=False)
    minFailedTaskCount = WholeField(required=False, allow_null=True)
    minSucceededTaskCount = WholeField(required=False, allow_null=True)
    command = TextField()
    portList = OldPortFields(many=True, required=False, max_length=100)  # type: ignore[call-arg]


class OldJobFields(Fields):
    jobName = TextField()
    image = TextField()
    virtualCluster = TextField(required=False, allow_blank=True)
    gpuType = TextField(required=False, allow_blank=True)
    retryCount = WholeField(required=False)
    killAllOnCompletedTaskNumber = WholeField(required=False)
    authFile = TextField(required=False, allow_blank=True)
    dataDir = TextField(required=False, allow_blank=True)
    codeDir = TextField(required=False, allow_blank=True)
    outputDir = TextField(required=False, allow_blank=True)
    jobEnvs = serializers.DictField(required=False)
    taskRoles = OldRoleFields(many=True, max_length=100)  # type: ignore[call-arg]


def job_file(request: Request) -> str:
    """Return the job file of a request: as it was sent, or rewritten where version 1 is meant.
    Raises ValidationError, SkepError `invalid_job`."""
    text = body_text(request)
    if (request.content_type or "").startswith(FORM):
        found: Any = _nested(text)
    elif "jobName" in text:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return text
    else:
        return text
    if not isinstance(found, Mapping) or "jobName" not in found:
        return json.dumps(found) if text and isinstance(found, Mapping) else text
    parsed = OldJobFields(data=found)
    parsed.is_valid(raise_exception=True)
    return json.dumps(_version_2(parsed.validated_data))


def _nested(form: str) -> dict[str, Any]:
    """Return what `taskRoles[0][name]=a` describes."""
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(form, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise _refused(f"A form has at most {MOST_FIELDS} fields.") from None
    for name, value in pairs:
        *above, last = re.findall(r"[^\[\]]+", name)[:DEEPEST] or [""]
        here = found
        for key in above:
            inner = here.setdefault(key, {})
            if not isinstance(inner, dict):
                raise _refused(f"{name[:100]} is given twice.")
            here = inner
        here[last] = value
    return {key: _lists(value) for key, value in found.items()}


def _lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _lists(one) for key, one in value.items()}
    if inner and all(re.fullmatch("[0-9]{1,6}", key) for key in inner):
        return [inner[key] for key in sorted(inner, key=int)]
    return inner


def _version_2(old: Mapping[str, Any]) -> dict[str, Any]:
    if old.get("authFile"):
        message = "authFile lies in HDFS: name the registry's credential in Skep instead."
        raise _refused(message)
    if old.get("killAllOnCompletedTaskNumber"):
        message = "Write minSucceededTaskCount of a role for killAllOnCompletedTaskNumber."
        raise _refused(message)
    new: dict[str, Any] = {
        "protocolVersion": 2,
        "name": old["jobName"],
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": old["image"]}],
        "taskRoles": {role["name"]: _role(role, _exports(old)) for role in old["taskRoles"]},
    }
    if len(new["taskRoles"]) < len(old["taskRoles"]):
        raise _refused("Two task roles have the same name.")
    if "retryCount" in old:
        new["jobRetryCount"] = old["retryCount"]
    if old.get("virtualCluster"):
        new["defaults"] = {"virtualCluster": old["virtualCluster"]}
    if old.get("gpuType"):
        chosen = {name: {"skuType": old["gpuType"]} for name in new["taskRoles"]}
        new["extras"] = {"hivedScheduler": {"taskRoles": chosen}}
    return new


def _exports(old: Mapping[str, Any]) -> list[str]:
    """Return commands that set the variables which version 1 set."""
    known = {name: old[field] for field, name in FOLDERS.items() if old.get(field)}
    for name, value in {**known, **old.get("jobEnvs", {})}.items():
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise _refused(f"{name[:100]} is no name of an environment variable.")
        known[name] = str(value)
    return [f"export {name}={shlex.quote(value)}" for name, value in known.items()]


def _role(old: Mapping[str, Any], exports: list[str]) -> dict[str, Any]:
    asked = {"cpu": old["cpuNumber"], "memoryMB": old["memoryMB"], "gpu": old["gpuNumber"]}
    if ports := old.get("portList"):
        asked["ports"] = {port["label"]: port["portNumber"] for port in ports}
    new = {
        "instances": old["taskNumber"],
        "dockerImage": "image",
        "resourcePerInstance": asked,
        "commands": [*exports, old["command"]],
    }
    named = {"minFailedInstances": "minFailedTaskCount"}
    named["minSucceededInstances"] = "minSucceededTaskCount"
    completion = {key: old[field] for key, field in named.items() if old.get(field)}
    if completion:
        new["completion"] = completion
    if "shmMB" in old:
        new["extraContainerOptions"] = {"shmMB": old["shmMB"]}
    return new


def _refused(message: str) -> SkepError:
    return SkepError(message, code="invalid_job")
