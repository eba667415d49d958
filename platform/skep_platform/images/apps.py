from django.apps import AppConfig


class ImagesConfig(AppConfig):
    name = "skep_platform.images"
    label = "images"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.core import ports
        from skep_platform.images import queries

        ports.images_only_of.bind(queries.only_of)
