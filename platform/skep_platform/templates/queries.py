"""All reads of templates."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from skep_platform.core.errors import NotFound
from skep_platform.templates.models import Template, TemplateStar
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.queries import AnyUser


def visible_to(user: AnyUser) -> QuerySet[Template]:
    """Select the templates that exist for this user: those for everybody and those of the user's
    virtual clusters, unless an admin hid them, and the user's own; all for an admin. `starred`: by
    the user."""
    own = TemplateStar.objects.filter(template=OuterRef("pk"), user_id=user.pk)
    found = Template.objects.select_related("owner", "vc").annotate(starred=Exists(own))
    if tenancy.is_admin(user):
        return found
    shared = Q(vc=None) | Q(vc__in=tenancy.visible_to(user).values("pk"))
    return found.filter(Q(owner_id=user.pk) | (Q(listed=True) & shared))


def find(user: AnyUser, address: str) -> Template:
    """Return a template by its address; a name alone is the user's own, or else came with Skep.
    Raises NotFound, also when it exists and the user may not see it."""
    owner, dot, name = address.rpartition(".")
    if dot:
        named = Q(owner__username=owner, name=name)
    elif is_uuid(address):
        named = Q(pk=address, owner=None, shipped=False)
    else:
        named = Q(name=address) & (Q(owner_id=user.pk) | Q(shipped=True))
    found = visible_to(user).filter(named).order_by("shipped").first()
    if found is None:
        raise NotFound(f"There is no template named {address[:200]}.")
    return found


def read(user: AnyUser, template_id: UUID) -> Template:
    """Return a template by its id. Raises NotFound."""
    found = visible_to(user).filter(pk=template_id).first()
    if found is None:
        raise NotFound("There is no such template.")
    return found


def is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def may_change(user: AnyUser, template: Template) -> bool:
    return tenancy.is_admin(user) or (
        template.owner_id is not None and template.owner_id == user.pk
    )


def starred_by(templates: QuerySet[Template], user: AnyUser) -> QuerySet[Template]:
    return templates.filter(starred_by__user_id=user.pk)


def search(templates: QuerySet[Template], text: str) -> QuerySet[Template]:
    """Filter by words in name, title or description; all of them."""
    for word in text.split()[:10]:
        found = Q(name__icontains=word) | Q(title__icontains=word) | Q(description__icontains=word)
        templates = templates.filter(found)
    return templates
