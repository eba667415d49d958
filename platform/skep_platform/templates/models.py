"""Templates of jobs, and who starred them."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from skep_platform.core.models import Entity
from skep_platform.tenancy.models import NAME


class Template(Entity):
    """A job file with a description, to be used by others: without secrets. Names are unique among
    those of one owner, and among those that came with Skep: a name that is taken says
    nothing of hidden ones. `address` is by what it is found."""

    name = models.CharField(max_length=63, validators=[NAME])
    title = models.CharField(max_length=100)
    description = models.TextField(blank=True)
    text = models.TextField()  # a job file
    parameters = models.JSONField(default=dict)  # those of the file
    gpus = models.PositiveIntegerField()  # of the whole job, as the next
    tasks = models.PositiveIntegerField()
    # Null: it came with Skep (`shipped`), or its owner was deleted.
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="templates"
    )
    # Who sees it: the members of this virtual cluster; null: every user.
    vc = models.ForeignKey(
        "tenancy.VirtualCluster", models.CASCADE, null=True, related_name="templates"
    )
    shipped = models.BooleanField(default=False)
    listed = models.BooleanField(default=True)  # an admin may hide it from all but its owner
    stars = models.PositiveIntegerField(default=0)  # number of its TemplateStar

    class Meta:
        indexes = [
            models.Index(fields=["-stars", "id"], name="template_by_stars"),
            models.Index(fields=["-created_at", "id"], name="template_newest"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="template_name_of_owner"),
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(shipped=True), name="template_name_shipped"
            ),
        ]

    def __str__(self) -> str:
        return self.address

    @property
    def address(self) -> str:
        """Return "owner.name", the name alone of one that came with Skep, and the id of one whose
        owner was deleted. A name has no dot."""
        if self.shipped:
            return self.name
        return f"{self.owner.get_username()}.{self.name}" if self.owner else str(self.pk)


class TemplateStar(models.Model):
    """A user who likes a template."""

    template = models.ForeignKey(
        Template, models.CASCADE, related_name="starred_by", db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["template", "user"], name="star_once")]
