"""The actions that the audit log knows, and the routes of the API that record them.

`scripts/audit-actions` writes this table into `docs/audit.md`; a test compares the two. A writing
route that stands neither here nor in `NOT_RECORDED` fails the test of the routes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """`target_type`: what it is done to. `routes`: "METHOD path" of the API's routes that do it; a
    refused request is recorded under the first action of its route."""

    target_type: str
    description: str
    routes: tuple[str, ...] = ()


ACTIONS: dict[str, Action] = {
    "login.succeeded": Action("user", "A user logged in."),
    "login.failed": Action(
        "user",
        "Someone gave a wrong user name or password, or tried too often.",
        ("POST auth/login", "POST auth/token", "POST auth/passkey"),
    ),
    "logout": Action("user", "A user logged out.", ("POST auth/logout",)),
    "session.end": Action(
        "user",
        "A user ended another session, or all others.",
        ("DELETE me/sessions", "DELETE me/sessions/<id>"),
    ),
    "token.create": Action(
        "token",
        "An API token was created.",
        (
            "POST auth/tokens",
            "POST auth/device/token",
            "POST virtual-clusters/<name>/service-accounts/<account>/tokens",
        ),
    ),
    "token.delete": Action(
        "token",
        "An API token was revoked.",
        (
            "DELETE auth/tokens/<id>",
            "DELETE tokens/<id>",
            "DELETE virtual-clusters/<name>/service-accounts/<account>/tokens/<token>",
        ),
    ),
    "device_login.decide": Action(
        "user", "A user allowed or denied a program's login by a browser.", ("POST me/device",)
    ),
    "user.create": Action("user", "A user was created.", ("POST users",)),
    "user.break_glass": Action(
        "user",
        "A user's password was reset by a command on the server's machine; all sessions ended.",
    ),
    "user.import": Action(
        "user",
        "Users were imported from a CSV file, with groups and roles.",
        ("POST user-imports",),
    ),
    "user.update": Action(
        "user", "A user's e-mail, rights or state changed.", ("PATCH users/<username>",)
    ),
    "user.delete": Action("user", "A user was deleted.", ("DELETE users/<username>",)),
    "user.password.update": Action(
        "user", "A user's password changed; its sessions ended.", ("POST me/password",)
    ),
    "user.password.reset": Action(
        "user", "A password was set by a reset link.", ("POST auth/password-reset",)
    ),
    "user.reset_link.create": Action(
        "user", "A link to reset a password was created.", ("POST users/<username>/reset-link",)
    ),
    "user.recovery.send": Action(
        "user", "A link to reset a forgotten password was sent to a confirmed address."
    ),
    "user.email.confirm": Action(
        "user",
        "A user confirmed an e-mail address, or took another one.",
        ("POST me/email/confirm",),
    ),
    "user.sign_out": Action(
        "user", "The directory has disabled a user; its sessions and tokens ended."
    ),
    "user.sso.link": Action("user", "A user linked an account of the identity provider."),
    "user.sso.unlink": Action(
        "user", "A user ended the link to the identity provider.", ("DELETE me/sso",)
    ),
    "mfa.enable": Action(
        "user", "A user set up multi-factor authentication.", ("POST me/mfa/confirm",)
    ),
    "mfa.disable": Action(
        "user", "A user switched multi-factor authentication off.", ("POST me/mfa/disable",)
    ),
    "mfa.reset": Action(
        "user",
        "An admin switched a user's multi-factor authentication off.",
        ("DELETE users/<username>/mfa",),
    ),
    "mfa.key.create": Action("user", "A user added a security key.", ("POST me/mfa/keys",)),
    "mfa.key.update": Action("user", "A user renamed a security key.", ("PATCH me/mfa/keys/<id>",)),
    "mfa.key.delete": Action(
        "user", "A user removed a security key.", ("DELETE me/mfa/keys/<id>",)
    ),
    "mfa.recovery_code.use": Action("user", "A user gave a recovery code, which is used up."),
    "mfa.recovery_codes.renew": Action(
        "user", "A user replaced the recovery codes.", ("POST me/mfa/recovery-codes",)
    ),
    "group.create": Action("group", "A group was created.", ("POST groups",)),
    "group.update": Action("group", "A group changed.", ("PATCH groups/<name>",)),
    "group.delete": Action("group", "A group was deleted.", ("DELETE groups/<name>",)),
    "group.member.add": Action(
        "group", "Users were added to a group.", ("PUT groups/<name>/members/<username>",)
    ),
    "group.member.remove": Action(
        "group",
        "A user was removed from a group.",
        ("DELETE groups/<name>/members/<username>",),
    ),
    "vc.create": Action("vc", "A virtual cluster was created.", ("POST virtual-clusters",)),
    "vc.update": Action(
        "vc",
        "Name, description or job visibility of a virtual cluster changed.",
        ("PATCH virtual-clusters/<name>",),
    ),
    "vc.delete": Action(
        "vc", "A virtual cluster was deleted.", ("DELETE virtual-clusters/<name>",)
    ),
    "vc.policy.update": Action("vc", "The scheduling policy of a virtual cluster changed."),
    "vc.quota.update": Action(
        "vc", "The quotas of a virtual cluster changed.", ("PUT virtual-clusters/<name>/quotas",)
    ),
    "vc.member.set": Action(
        "user",
        "A user became a member of a virtual cluster, or got another role there.",
        ("PUT virtual-clusters/<name>/members/<username>",),
    ),
    "vc.member.remove": Action(
        "user",
        "A user was removed from a virtual cluster.",
        ("DELETE virtual-clusters/<name>/members/<username>",),
    ),
    "service_account.create": Action(
        "user",
        "A service account of a virtual cluster was created.",
        ("POST virtual-clusters/<name>/service-accounts",),
    ),
    "service_account.update": Action(
        "user",
        "The role, state or description of a service account changed.",
        ("PATCH virtual-clusters/<name>/service-accounts/<account>",),
    ),
    "service_account.delete": Action(
        "user",
        "A service account was removed; its tokens ended.",
        ("DELETE virtual-clusters/<name>/service-accounts/<account>",),
    ),
    "vc.limit.update": Action(
        "limit",
        "A limit of a virtual cluster was set, or returned to its default.",
        (
            "PUT virtual-clusters/<name>/limits/<limit>",
            "DELETE virtual-clusters/<name>/limits/<limit>",
        ),
    ),
    "vc.budget.update": Action(
        "vc",
        "The GPU-hour budget of a virtual cluster was set or removed.",
        ("PUT virtual-clusters/<name>/budget", "DELETE virtual-clusters/<name>/budget"),
    ),
    "vc.group.set": Action(
        "group",
        "A group got a role in a virtual cluster.",
        ("PUT virtual-clusters/<name>/groups/<group>",),
    ),
    "vc.group.remove": Action(
        "group",
        "A group lost its role in a virtual cluster.",
        ("DELETE virtual-clusters/<name>/groups/<group>",),
    ),
    "vc.image_rules.update": Action(
        "vc",
        "The patterns of images that jobs of a virtual cluster may use changed.",
        ("PUT virtual-clusters/<name>/image-rules",),
    ),
    "cells.assignment.update": Action(
        "cells",
        "The cells that virtual clusters own, or the pinned cells, changed.",
        ("PUT cells/assignment",),
    ),
    "cells.layout.update": Action(
        "cells", "The layout of the physical cells was replaced.", ("PUT cells/hived",)
    ),
    "cells.layout.delete": Action(
        "cells", "The layout of the physical cells was removed.", ("DELETE cells/hived",)
    ),
    "image.create": Action("image", "An image was added to the catalogue.", ("POST images",)),
    "image.update": Action("image", "An image of the catalogue changed.", ("PATCH images/<name>",)),
    "image.inspect": Action(
        "image", "The registry of an image was asked for it.", ("POST images/<name>/inspect",)
    ),
    "image.prefetch": Action(
        "image", "An image is pulled to nodes in advance.", ("POST images/<name>/prefetches",)
    ),
    "image.prefetch_cancel": Action(
        "image", "A prefetch of an image was cancelled.", ("DELETE prefetches/<id>",)
    ),
    "image.delete": Action(
        "image", "An image was removed from the catalogue.", ("DELETE images/<name>",)
    ),
    "ssh_key.add": Action("ssh_key", "A user added a public ssh key.", ("POST me/ssh-keys",)),
    "ssh_key.remove": Action(
        "ssh_key", "A user removed a public ssh key.", ("DELETE me/ssh-keys/<id>",)
    ),
    "registry_credential.set": Action(
        "registry_credential",
        "A user name and password for a registry were stored; the password is not recorded.",
        (
            "PUT me/registry-credentials/<registry>",
            "PUT virtual-clusters/<name>/registry-credentials/<registry>",
        ),
    ),
    "registry_credential.remove": Action(
        "registry_credential",
        "A user name and password for a registry were removed.",
        (
            "DELETE me/registry-credentials/<registry>",
            "DELETE virtual-clusters/<name>/registry-credentials/<registry>",
        ),
    ),
    "storage.create": Action("storage", "A storage was added.", ("POST storages",)),
    "storage.update": Action("storage", "A storage changed.", ("PATCH storages/<name>",)),
    "storage.delete": Action(
        "storage", "A storage was removed, with its grants.", ("DELETE storages/<name>",)
    ),
    "storage.grant.set": Action(
        "storage",
        "A storage was granted to a virtual cluster or a group, or the grant changed.",
        (
            "PUT storages/<name>/grants/<virtual_cluster>",
            "PUT storages/<name>/groups/<group>",
        ),
    ),
    "storage.grant.remove": Action(
        "storage",
        "The grant of a storage to a virtual cluster or a group was withdrawn.",
        (
            "DELETE storages/<name>/grants/<virtual_cluster>",
            "DELETE storages/<name>/groups/<group>",
        ),
    ),
    "dataset.create": Action("storage", "A dataset was made of a folder.", ("POST datasets",)),
    "dataset.update": Action("storage", "A dataset was described anew.", ("PATCH datasets/<id>",)),
    "dataset.delete": Action(
        "storage", "A dataset was deleted, and nothing of its files.", ("DELETE datasets/<id>",)
    ),
    "storage.file.upload": Action(
        "storage", "A file was uploaded to a storage.", ("PUT storages/<name>/content",)
    ),
    "storage.file.remove": Action(
        "storage",
        "A file or folder of a storage was removed through the API.",
        ("DELETE storages/<name>/files",),
    ),
    "node.join": Action("node", "A node joined the cluster.", ("POST nodes/join",)),
    "node.update": Action("node", "The labels of a node changed.", ("PATCH nodes/<name>",)),
    "node.cordon": Action(
        "node", "A node was cordoned: it gets no new tasks.", ("POST nodes/<name>/cordon",)
    ),
    "node.uncordon": Action(
        "node",
        "A node was put to use again; this ends draining, too.",
        ("POST nodes/<name>/uncordon", "POST nodes/<name>/undrain"),
    ),
    "node.drain": Action(
        "node", "A node is being emptied for maintenance.", ("POST nodes/<name>/drain",)
    ),
    "node.declare_lost": Action(
        "node",
        "A node was declared lost; its GPUs were released.",
        ("POST nodes/<name>/declare-lost",),
    ),
    "node.remove": Action("node", "A node was removed.", ("DELETE nodes/<name>",)),
    "node.check": Action(
        "node",
        "A node was cordoned until it has passed its checks.",
        ("POST nodes/<name>/checks",),
    ),
    "maintenance.plan": Action(
        "node", "Maintenance of a node was planned.", ("POST maintenance-windows",)
    ),
    "maintenance.cancel": Action(
        "node", "Maintenance of a node was cancelled.", ("DELETE maintenance-windows/<id>",)
    ),
    "join_token.create": Action(
        "join_token", "A token that lets nodes join was created.", ("POST nodes/join-tokens",)
    ),
    "join_token.delete": Action(
        "join_token",
        "A token that lets nodes join was revoked.",
        ("DELETE nodes/join-tokens/<token_id>",),
    ),
    "announcement.create": Action(
        "announcement", "An announcement was published.", ("POST announcements",)
    ),
    "announcement.delete": Action(
        "announcement", "An announcement was deleted.", ("DELETE announcements/<id>",)
    ),
    "notification.preferences.update": Action(
        "user",
        "A user changed what to be notified of, or unsubscribed by the link of an e-mail.",
        ("PATCH notifications/preferences", "POST notifications/unsubscribe"),
    ),
    "notification.test": Action(
        "delivery", "A user sent a test notification.", ("POST notifications/test",)
    ),
    "webhook.create": Action("webhook", "A webhook was created.", ("POST webhooks",)),
    "webhook.update": Action("webhook", "A webhook changed.", ("PATCH webhooks/<id>",)),
    "webhook.secret.create": Action(
        "webhook", "The secret of a webhook was replaced.", ("POST webhooks/<id>/secret",)
    ),
    "webhook.delete": Action("webhook", "A webhook was deleted.", ("DELETE webhooks/<id>",)),
    "job.submit": Action("job", "A job was submitted.", ("POST jobs", "POST jobs/batch")),
    "job.clone": Action(
        "job",
        "A job was submitted again.",
        ("POST jobs/<id>/clone", "POST jobs/<id>/run-again"),
    ),
    "job.stop": Action("job", "A job was stopped.", ("POST jobs/<id>/stop", "POST jobs/bulk/stop")),
    "job.retry": Action("job", "A job was retried at once.", ("POST jobs/<id>/retry",)),
    "job.end_retries": Action(
        "job", "The retries of a job were ended.", ("POST jobs/<id>/end-retries",)
    ),
    "job.opportunistic": Action(
        "job", "A job was let start without its guarantee.", ("POST jobs/<id>/opportunistic",)
    ),
    "job.move": Action("job", "A job was moved off a node.", ("POST jobs/<id>/move",)),
    "job.image_save": Action(
        "job",
        "A user asked to save a container of a job as an image.",
        ("POST jobs/<id>/image-saves",),
    ),
    "job.image_save_cancel": Action(
        "job", "A save of a container as an image was cancelled.", ("DELETE image-saves/<id>",)
    ),
    "job.priority.update": Action(
        "job", "The priority of a job changed.", ("PUT jobs/<id>/priority",)
    ),
    "job.visibility.update": Action(
        "job", "Who may see a job changed.", ("PUT jobs/<id>/visibility",)
    ),
    "job.share": Action(
        "job",
        "A job was shared with a user or a group.",
        ("PUT jobs/<id>/shares/users/<username>", "PUT jobs/<id>/shares/groups/<group>"),
    ),
    "job.unshare": Action(
        "job",
        "The sharing of a job with a user or a group ended.",
        ("DELETE jobs/<id>/shares/users/<username>", "DELETE jobs/<id>/shares/groups/<group>"),
    ),
    "job.idle.update": Action(
        "job",
        "A job was exempted from the idle rule, or is no longer.",
        ("PUT jobs/<id>/idle-exemption",),
    ),
    "job.tags.update": Action(
        "job", "The tags of a job changed.", ("PUT jobs/<id>/tags", "POST jobs/bulk/tags")
    ),
    "template.create": Action("template", "A template was published.", ("POST templates",)),
    "template.update": Action(
        "template", "A template changed, or was hidden or shown.", ("PATCH templates/<name>",)
    ),
    "template.delete": Action("template", "A template was deleted.", ("DELETE templates/<name>",)),
    "app.create": Action("job", "A notebook or another app was started.", ("POST apps",)),
    "app.attach": Action(
        "job", "TensorBoard was started in a running task.", ("POST jobs/<id>/apps",)
    ),
    "app.open": Action(
        "job", "A user opened an app of a job in a browser.", ("POST apps/<id>/open",)
    ),
    "app.share": Action(
        "job",
        "An app was shared with its virtual cluster, or not any more.",
        ("PATCH apps/<id>",),
    ),
    "job.exec": Action("job", "A command was run in a task; the command is not recorded."),
    "job.exec.end": Action("job", "A command in a task, or its connection, ended."),
    "job.port_forward": Action("job", "A user connected to a port of a task."),
    "job.port_forward.end": Action("job", "A connection to a port of a task ended."),
    "simulation.create": Action(
        "simulation",
        "A simulation or a forecast of policies was asked for.",
        ("POST simulations", "POST virtual-clusters/<name>/policy/forecast"),
    ),
    "simulation.stop": Action(
        "simulation", "A simulation was stopped.", ("POST simulations/<id>/stop",)
    ),
    "file.upload": Action("file", "Working files of jobs were uploaded.", ("POST files",)),
    "backup.record": Action("backup", "It was recorded that a backup was made.", ("POST backups",)),
    "alert_rule.create": Action(
        "alert_rule", "A rule for alerts was created.", ("POST alert-rules",)
    ),
    "alert_rule.update": Action(
        "alert_rule", "A rule for alerts was changed.", ("PATCH alert-rules/<id>",)
    ),
    "alert_rule.delete": Action(
        "alert_rule", "A rule for alerts was deleted.", ("DELETE alert-rules/<id>",)
    ),
    "audit.export": Action("audit", "Entries of this log were exported."),
    "audit.drop": Action("audit", "Entries older than the retention were deleted."),
    "request.refused": Action("route", "A writing request without an action here was refused."),
}

# Writing routes that change nothing, and why they are writes.
NOT_RECORDED: dict[str, str] = {
    "POST auth/recovery": "looks for no user; the task that sends an e-mail records it",
    "POST auth/device": "begins a login that does nothing before a user allows it",
    "POST me/sso": "begins to link an account; coming back from the provider is recorded",
    "POST me/email": "sends a link that does nothing before the user opens it",
    "POST me/confirm": "changes nothing but how long the session is trusted",
    "POST me/mfa/keys/start": "makes a challenge that does nothing before a key signs it",
    "POST auth/passkey/start": "makes a challenge that does nothing before a passkey signs it",
    "POST me/mfa/start": "makes a key that does nothing before a code confirms it",
    "PUT announcements/<id>/dismissal": "hides an announcement from its caller alone",
    "POST notifications/read": "marks the caller's own notifications",
    "PATCH notifications/<id>": "marks the caller's own notification",
    "DELETE notifications/<id>": "deletes the caller's own notification",
    "POST virtual-clusters/<name>/policy/check": "answers a question and changes nothing",
    "POST me/job-views": "saves filters for its caller alone",
    "DELETE me/job-views/<id>": "deletes filters that its caller saved",
    "PUT templates/<name>/star": "adds the star of its caller",
    "DELETE templates/<name>/star": "takes the star of its caller back",
    "POST jobs/check": "checks the text in its body",
    "POST jobs/convert": "converts the text in its body",
    "POST cells/assignment/check": "checks the assignment in its body",
    "POST cells/hived/check": "checks the layout in its body",
}

ACTION_OF_ROUTE: dict[str, str] = {
    route: name for name, action in ACTIONS.items() for route in action.routes
}


def named(prefix: str) -> list[str]:
    """Return the names of all actions that are `prefix`, or lie below it: "job.exec" gives
    "job.exec" and "job.exec.end". A last dot or asterisk is ignored."""
    stem = prefix.rstrip("*").rstrip(".")
    return [name for name in ACTIONS if name == stem or name.startswith(f"{stem}.")]
