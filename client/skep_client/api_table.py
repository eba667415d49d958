"""The table of the methods of `Skep` and `AsyncSkep` that send one request; `calls` says what each
of them sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from skep_client import calls
from skep_client.calls import Call
from skep_client.model import Page

T = TypeVar("T")
P = ParamSpec("P")
# One page of results as the server names the next one, or None.
NextPage = Callable[[str], Call[Page[T]]]


class Method(Generic[P, T]):
    """A call as a method: `Skep` returns the answer, `AsyncSkep` an awaitable of it."""

    def __init__(self, call: Callable[P, Call[T]]) -> None:
        self.call = call
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, client: BlockingApi, owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncApi, owner: type[Any]) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, client: Any, owner: type[Any]) -> Any:
        if client is None:
            return self

        @wraps(self.call)
        def send(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.run(self.call(*args, **kwargs))

        return send


class Pages(Generic[P, T]):
    """A call that answers page by page as a method: an iterator, or asynchronous iterator, over the
    results of all pages."""

    def __init__(self, call: Callable[P, Call[Page[T]]]) -> None:
        self.call = call
        self.__doc__ = call.__doc__

    @overload
    def __get__(self, client: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, client: BlockingApi, owner: type[Any]) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncApi, owner: type[Any]) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, client: Any, owner: type[Any]) -> Any:
        if client is None:
            return self
        call: Callable[..., Call[Page[T]]] = self.call

        @wraps(call)
        def iterate(*args: Any, **kwargs: Any) -> Any:
            return client.all(lambda cursor: call(*args, **kwargs, cursor=cursor))

        return iterate


class Api:
    """The methods of both clients that send one request each, or the pages of one."""

    info = Method(calls.info)
    tokens = Method(calls.tokens)
    all_tokens = Pages(calls.all_tokens)
    revoke_token = Method(calls.revoke_token)
    ssh_keys = Method(calls.ssh_keys)
    add_ssh_key = Method(calls.add_ssh_key)
    remove_ssh_key = Method(calls.remove_ssh_key)
    service_accounts = Pages(calls.service_accounts)
    create_service_account = Method(calls.create_service_account)
    update_service_account = Method(calls.update_service_account)
    delete_service_account = Method(calls.delete_service_account)
    service_account_tokens = Method(calls.service_account_tokens)
    create_service_account_token = Method(calls.create_service_account_token)
    delete_service_account_token = Method(calls.delete_service_account_token)
    delete_token = Method(calls.delete_token)
    me = Method(calls.me)
    submit = Method(calls.submit)
    logout = Method(calls.logout)
    check = Method(calls.check)
    jobs = Pages(calls.jobs)
    archived_jobs = Pages(calls.archived_jobs)
    archived_job = Method(calls.archived_job)
    job = Method(calls.job)
    convert = Method(calls.convert)
    retry = Method(calls.retry)
    clone = Method(calls.clone)
    set_tags = Method(calls.set_tags)
    submit_jobs = Method(calls.submit_jobs)
    sweep = Method(calls.sweep)
    stop_jobs = Method(calls.stop_jobs)
    tag_jobs = Method(calls.tag_jobs)
    set_visibility = Method(calls.set_visibility)
    job_shares = Method(calls.job_shares)
    share_job = Method(calls.share_job)
    unshare_job = Method(calls.unshare_job)
    set_idle_exemption = Method(calls.set_idle_exemption)
    set_priority = Method(calls.set_priority)
    end_retries = Method(calls.end_retries)
    run_opportunistically = Method(calls.run_opportunistically)
    move = Method(calls.move)
    run_again = Method(calls.run_again)
    templates = Pages(calls.templates)
    template = Method(calls.template)
    create_template = Method(calls.create_template)
    update_template = Method(calls.update_template)
    delete_template = Method(calls.delete_template)
    star_template = Method(calls.star_template)
    unstar_template = Method(calls.unstar_template)
    attempts = Pages(calls.attempts)
    use = Method(calls.use)
    metrics = Method(calls.metrics)
    user_metrics = Method(calls.user_metrics)
    compare_jobs = Method(calls.compare_jobs)
    stop = Method(calls.stop)
    tasks = Pages(calls.tasks)
    events = Pages(calls.events)
    logs = Method(calls.logs)
    nodes = Pages(calls.nodes)
    cordon = Method(calls.cordon)
    uncordon = Method(calls.uncordon)
    remove_node = Method(calls.remove_node)
    create_join_token = Method(calls.create_join_token)
    join_tokens = Pages(calls.join_tokens)
    revoke_join_token = Method(calls.revoke_join_token)
    check_node = Method(calls.check_node)
    node_checks = Pages(calls.node_checks)
    maintenance_windows = Pages(calls.maintenance_windows)
    plan_maintenance = Method(calls.plan_maintenance)
    cancel_maintenance = Method(calls.cancel_maintenance)
    declare_lost = Method(calls.declare_lost)
    virtual_clusters = Pages(calls.virtual_clusters)
    virtual_cluster = Method(calls.virtual_cluster)
    create_virtual_cluster = Method(calls.create_virtual_cluster)
    update_virtual_cluster = Method(calls.update_virtual_cluster)
    delete_virtual_cluster = Method(calls.delete_virtual_cluster)
    policies = Method(calls.policies)
    choose_policy = Method(calls.choose_policy)
    limits = Method(calls.limits)
    set_limit = Method(calls.set_limit)
    reset_limit = Method(calls.reset_limit)
    set_quotas = Method(calls.set_quotas)
    set_member = Method(calls.set_member)
    remove_member = Method(calls.remove_member)
    members = Pages(calls.members)
    announcements = Pages(calls.announcements)
    announce = Method(calls.announce)
    delete_announcement = Method(calls.delete_announcement)
    dismiss_announcement = Method(calls.dismiss_announcement)
    notifications = Pages(calls.notifications)
    mark_read = Method(calls.mark_read)
    notification_preferences = Method(calls.notification_preferences)
    set_notification_preferences = Method(calls.set_notification_preferences)
    send_test_notification = Method(calls.send_test_notification)
    notification_delivery = Method(calls.notification_delivery)
    notification_deliveries = Pages(calls.notification_deliveries)
    webhooks = Pages(calls.webhooks)
    create_webhook = Method(calls.create_webhook)
    update_webhook = Method(calls.update_webhook)
    new_webhook_secret = Method(calls.new_webhook_secret)
    delete_webhook = Method(calls.delete_webhook)
    audit = Pages(calls.audit)
    doctor = Method(calls.doctor)
    platform = Method(calls.platform)
    backups = Pages(calls.backups)
    record_backup = Method(calls.record_backup)
    alerts = Pages(calls.alerts)
    alert_rules = Pages(calls.alert_rules)
    create_alert_rule = Method(calls.create_alert_rule)
    update_alert_rule = Method(calls.update_alert_rule)
    delete_alert_rule = Method(calls.delete_alert_rule)
    simulated_cluster = Method(calls.simulated_cluster)
    simulations = Pages(calls.simulations)
    simulation = Method(calls.simulation)
    create_simulation = Method(calls.create_simulation)
    stop_simulation = Method(calls.stop_simulation)
    images = Pages(calls.images)
    image = Method(calls.image)
    create_image = Method(calls.create_image)
    update_image = Method(calls.update_image)
    inspect_image = Method(calls.inspect_image)
    delete_image = Method(calls.delete_image)
    image_nodes = Pages(calls.image_nodes)
    node_images = Pages(calls.node_images)
    save_image = Method(calls.save_image)
    image_saves = Pages(calls.image_saves)
    cancel_image_save = Method(calls.cancel_image_save)
    saved_images = Pages(calls.saved_images)
    prefetch_image = Method(calls.prefetch_image)
    prefetches = Pages(calls.prefetches)
    prefetch_nodes = Pages(calls.prefetch_nodes)
    cancel_prefetch = Method(calls.cancel_prefetch)
    check_image_rules = Method(calls.check_image_rules)
    image_rules = Method(calls.image_rules)
    set_image_rules = Method(calls.set_image_rules)
    registry_credentials = Pages(calls.registry_credentials)
    set_registry_credential = Method(calls.set_registry_credential)
    delete_registry_credential = Method(calls.delete_registry_credential)
    apps = Pages(calls.apps)
    job_apps = Pages(calls.job_apps)
    app = Method(calls.app)
    create_app = Method(calls.create_app)
    attach_tensorboard = Method(calls.attach_tensorboard)
    share_app = Method(calls.share_app)
    storages = Pages(calls.storages)
    users = Pages(calls.users)
    user = Method(calls.user)
    create_user = Method(calls.create_user)
    update_user = Method(calls.update_user)
    delete_user = Method(calls.delete_user)
    create_password_reset_link = Method(calls.create_password_reset_link)
    import_users = Method(calls.import_users)
    groups = Pages(calls.groups)
    group = Method(calls.group)
    create_group = Method(calls.create_group)
    update_group = Method(calls.update_group)
    delete_group = Method(calls.delete_group)
    group_members = Pages(calls.group_members)
    add_group_member = Method(calls.add_group_member)
    remove_group_member = Method(calls.remove_group_member)
    group_roles = Pages(calls.group_roles)
    set_group_role = Method(calls.set_group_role)
    remove_group_role = Method(calls.remove_group_role)
    storage = Method(calls.storage)
    create_storage = Method(calls.create_storage)
    update_storage = Method(calls.update_storage)
    delete_storage = Method(calls.delete_storage)
    grant_storage = Method(calls.grant_storage)
    revoke_storage = Method(calls.revoke_storage)
    grant_storage_to_group = Method(calls.grant_storage_to_group)
    revoke_storage_from_group = Method(calls.revoke_storage_from_group)
    datasets = Pages(calls.datasets)
    create_dataset = Method(calls.create_dataset)
    update_dataset = Method(calls.update_dataset)
    delete_dataset = Method(calls.delete_dataset)
    storage_files = Method(calls.storage_files)
    storage_usage = Method(calls.storage_usage)
    remove_storage_file = Method(calls.remove_storage_file)
    read_storage_file = Method(calls.read_storage_file)
    storage_upload = Method(calls.storage_upload)
    write_storage_file = Method(calls.write_storage_file)
    usage = Pages(calls.usage)
    export_usage = Method(calls.export_usage)
    report = Method(calls.report)
    export_report = Method(calls.export_report)
    budget = Method(calls.budget)
    set_budget = Method(calls.set_budget)
    remove_budget = Method(calls.remove_budget)
    cluster = Method(calls.cluster)
    cells = Method(calls.cells)
    physical_cells = Method(calls.physical_cells)
    assignment = Method(calls.assignment)
    check_assignment = Method(calls.check_assignment)
    set_assignment = Method(calls.set_assignment)
    export_hived = Method(calls.export_hived)
    check_hived = Method(calls.check_hived)
    import_hived = Method(calls.import_hived)
    delete_hived = Method(calls.delete_hived)
    cells_of = Method(calls.cells_of)
    queue = Method(calls.queue)
    history = Method(calls.history)
    node_forecast = Method(calls.node_forecast)
    check_policy = Method(calls.check_policy)
    forecast_policy = Method(calls.forecast_policy)
    drain = Method(calls.drain)
    undrain = Method(calls.undrain)


class BlockingApi(Api):
    """The methods return answers."""


class AsyncApi(Api):
    """The methods return awaitables of answers."""
