from django.apps import AppConfig


class ClusterConfig(AppConfig):
    name = "skep_platform.cluster"
    label = "cluster"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.cluster.queries import gpus_by_model
        from skep_platform.cluster.services import cells_changed
        from skep_platform.core import ports

        ports.gpus_by_model.bind(gpus_by_model)
        ports.claims_changed.bind(cells_changed)
