"""All reads of templates."""

from __future__ import annotations

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


def find(user: AnyUser, name: str) -> Template:
    """Return a template. Raises NotFound, also when it exists and the user may not see it."""
    found = visible_to(user).filter(name=name).first()
    if found is None:
        raise NotFound(f"There is no template named {name}.")
    return found


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
