"""All writes to templates. Each is one transaction."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Greatest
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from skep_jobfile.addresses import without_credentials
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.jobs.submission import job_file
from skep_platform.templates import queries
from skep_platform.templates.models import Template, TemplateStar
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster

MOST_TEMPLATES = 100  # of one user
MAX_TEXT = 64 * 1024  # characters of a job file
AUDITED = ("name", "title", "listed", "vc_id")
OF_SHIPPED = {"listed", "vc"}  # what may be changed of a template that came with Skep


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
            message = f"You have a template named {name}. Choose another name."
            raise Conflict(message, code="template_name_taken", name=name) from None
        audit.record("template.create", "template", made.pk, str(made), vc=vc, after=_audited(made))
    return queries.read(user, made.pk)


def update(user: User, template: Template, **changes: Any) -> Template:
    """Change a template. For its owner and admins; `listed` is for admins. Raises what `create`
    raises, Forbidden `may_not_change` or `may_not_moderate`, NotFound where it was deleted
    meanwhile, and Conflict `template_shipped` for what the next upgrade would write again."""
    _check_may_change(user, template)
    if "listed" in changes and not user.is_admin:
        raise Forbidden("Only an admin may hide or show a template.", code="may_not_moderate")
    if "virtual_cluster" in changes:
        changes["vc"] = _vc(user, changes.pop("virtual_cluster"))
    if template.shipped and not changes.keys() <= OF_SHIPPED:
        message = (
            "It came with Skep and is written again with each upgrade: only `listed` and "
            "`virtual_cluster` can be changed. Publish a template of your own instead."
        )
        raise Conflict(message, code="template_shipped")
    if "text" in changes:
        changes |= read(changes["text"], user.pk)
    with transaction.atomic():
        template = _locked(template)
        _check_may_change(user, template)
        before = _audited(template)
        for name, value in changes.items():
            setattr(template, name, value)
        template.save(update_fields=[*changes, "updated_at"])
        audit.record(
            "template.update",
            "template",
            template.pk,
            str(template),
            vc=template.vc,
            before=before,
            after=_audited(template),
        )
    return queries.read(user, template.pk)


@transaction.atomic
def delete(user: User, template: Template) -> None:
    """Delete a template. For its owner and admins; one that came with Skep is hidden instead. One
    that an admin hid keeps its name: its owner would publish it again, shown."""
    template = _locked(template)
    _check_may_change(user, template)
    if template.shipped:
        message = "It came with Skep and would come back: hide it instead (listed: false)."
        raise Conflict(message, code="template_shipped")
    if not template.listed and not user.is_admin:
        message = f"An admin hid {template.name}: only an admin may delete it. Ask one."
        raise Forbidden(message, code="template_hidden")
    audit.record("template.delete", "template", template.pk, str(template), vc=template.vc)
    template.delete()


@transaction.atomic
def star(user: User, template: Template, *, on: bool) -> Template:
    """Star a template or take that back; a second time changes nothing."""
    template = _locked(template)  # or of two users at once each would count only the own star
    if on:
        TemplateStar.objects.get_or_create(template=template, user=user)
    else:
        TemplateStar.objects.filter(template=template, user=user).delete()
    stars = TemplateStar.objects.filter(template=template).count()
    Template.objects.filter(pk=template.pk).update(stars=stars)
    return queries.read(user, template.pk)


@receiver(pre_delete, sender=User)
def user_goes(instance: User, **_: Any) -> None:
    """The stars of a user go with the user."""
    starred = Template.objects.filter(starred_by__user=instance)
    starred.update(stars=Greatest(F("stars") - 1, 0))


def read(text: str, user: object = None) -> dict[str, Any]:
    """Return the columns that follow from the text of a job file. Raises SkepError `invalid_job`,
    `template_too_large` and `template_has_secrets`."""
    if len(text) > MAX_TEXT:
        message = f"The job file has {len(text)} characters; a template has at most {MAX_TEXT}."
        raise SkepError(message, code="template_too_large", most=MAX_TEXT)
    found = job_file.read(text, user)
    shown = job_file.published(text, user)
    if shown is None or without_credentials(shown) != shown:
        message = (
            "Others can read a template, so it has no secrets: below `secrets`, leave names of "
            'letters, digits, - and _ with empty values (`token: ""`), and take passwords out of '
            "`auth` and of addresses."
        )
        raise SkepError(message, code="template_has_secrets")
    job = found.job
    return {"text": shown, "parameters": job.parameters, "gpus": job.gpus, "tasks": job.tasks}


def _locked(template: Template) -> Template:
    """Lock the row until the transaction ends. Raises NotFound where it was deleted meanwhile."""
    rows = Template.objects.select_related("vc", "owner")
    rows = rows.select_for_update(of=("self",), no_key=True)
    found = rows.filter(pk=template.pk).first()
    if found is None:
        raise NotFound(f"There is no template named {template.name}.")
    return found


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
