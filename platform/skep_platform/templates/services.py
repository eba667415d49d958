"""All writes to templates. Each is one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from skep_jobfile.addresses import without_credentials
from skep_jobfile.masking import MASK
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core.errors import Conflict, Forbidden, SkepError
from skep_platform.jobs.submission import job_file
from skep_platform.templates import queries
from skep_platform.templates.models import Template, TemplateStar
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster

MOST_TEMPLATES = 100  # of one user
MAX_TEXT = 64 * 1024  # characters of a job file
AUDITED = ("name", "title", "listed", "vc_id")


def create(
    user: User,
    *,
    name: str,
    title: str,
    text: str,
    description: str = "",
    virtual_cluster: str | None = None,
) -> Template:
    """Publish a job file to the members of a virtual cluster, or to every user. Raises NotFound,
    Forbidden `may_not_submit`, Conflict `template_name_taken` or `too_many_templates`, and what is
    wrong with the file: `invalid_job` or `template_has_secrets`."""
    vc = _vc(user, virtual_cluster)
    facts = read(text, user.pk)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if Template.objects.filter(owner=user).count() >= MOST_TEMPLATES:
            message = f"You have {MOST_TEMPLATES} templates, which is the most. Delete one first."
            raise Conflict(message, code="too_many_templates", most=MOST_TEMPLATES)
        try:
            with transaction.atomic():
                made = Template.objects.create(
                    name=name, title=title, description=description, owner=user, vc=vc, **facts
                )
        except IntegrityError:
            message = f"There is a template named {name}. Choose another name."
            raise Conflict(message, code="template_name_taken", name=name) from None
        audit.record("template.create", "template", made.pk, made.name, vc=vc, after=_audited(made))
    return queries.find(user, name)


def update(user: User, template: Template, **changes: Any) -> Template:
    """Change a template. For its owner and admins; `listed` is for admins. Raises what `create`
    raises, and Forbidden `may_not_change`."""
    _check_may_change(user, template)
    if "listed" in changes and not user.is_admin:
        raise Forbidden("Only an admin may hide or show a template.", code="may_not_moderate")
    if "virtual_cluster" in changes:
        changes["vc"] = _vc(user, changes.pop("virtual_cluster"))
    if "text" in changes:
        changes |= read(changes["text"], user.pk)
    before = _audited(template)
    with transaction.atomic():
        for name, value in changes.items():
            setattr(template, name, value)
        template.save(update_fields=[*changes, "updated_at"])
        audit.record(
            "template.update",
            "template",
            template.pk,
            template.name,
            vc=template.vc,
            before=before,
            after=_audited(template),
        )
    return queries.find(user, template.name)


@transaction.atomic
def delete(user: User, template: Template) -> None:
    """Delete a template. For its owner and admins; one that came with Skep is hidden instead."""
    _check_may_change(user, template)
    if template.shipped:
        message = "It came with Skep and would come back: hide it instead (listed: false)."
        raise Conflict(message, code="template_shipped")
    audit.record("template.delete", "template", template.pk, template.name, vc=template.vc)
    template.delete()


@transaction.atomic
def star(user: User, template: Template, *, on: bool) -> Template:
    """Star a template or take that back; a second time changes nothing."""
    if on:
        TemplateStar.objects.get_or_create(template=template, user=user)
    else:
        TemplateStar.objects.filter(template=template, user=user).delete()
    rows = TemplateStar.objects.filter(template=OuterRef("pk")).order_by().values("template")
    counted = Subquery(rows.annotate(n=Count("pk")).values("n"))
    Template.objects.filter(pk=template.pk).update(stars=Coalesce(counted, F("stars") * 0))
    return queries.find(user, template.name)


def read(text: str, user: object = None) -> dict[str, Any]:
    """Return the columns that follow from the text of a job file. Raises SkepError `invalid_job`,
    `template_too_large` and `template_has_secrets`."""
    if len(text) > MAX_TEXT:
        message = f"The job file has {len(text)} characters; a template has at most {MAX_TEXT}."
        raise SkepError(message, code="template_too_large", most=MAX_TEXT)
    found = job_file.read(text, user)
    secret = any(value not in ("", MASK) for value in _leaves(found.secrets))
    passwords = (auth.get("password") for auth in found.auths.values())
    login = any(p and p != MASK and "$secrets" not in p for p in passwords)
    if secret or login or without_credentials(text) != text:
        message = (
            "Others can read a template, so it has no secrets: leave the values below `secrets` "
            "empty, and take passwords out of `auth` and of addresses."
        )
        raise SkepError(message, code="template_has_secrets")
    job = found.job
    return {"text": text, "parameters": job.parameters, "gpus": job.gpus, "tasks": job.tasks}


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif value is not None:
        yield str(value)


def _vc(user: User, name: str | None) -> VirtualCluster | None:
    if name is None:
        return None
    vc = tenancy.find(user, name)
    if not tenancy.may_submit(user, vc):
        message = f"Only those who may submit to {name} publish templates there."
        raise Forbidden(message, code="may_not_submit", virtual_cluster=name)
    return vc


def _check_may_change(user: User, template: Template) -> None:
    if not queries.may_change(user, template):
        raise Forbidden("Only its owner and admins may change a template.", code="may_not_change")


def _audited(template: Template) -> dict[str, Any]:
    return {name: str(getattr(template, name)) for name in AUDITED}
