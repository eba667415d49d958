from django.apps import AppConfig


class ClusterConfig(AppConfig):
    name = "skep_platform.cluster"
    label = "cluster"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.cluster import layouts
        from skep_platform.cluster.queries import gpus_by_model
        from skep_platform.tenancy import capacity, changes

        capacity.told_by(gpus_by_model)
        changes.counted_by(layouts.changed)
