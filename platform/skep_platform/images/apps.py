from django.apps import AppConfig


class ImagesConfig(AppConfig):
    name = "skep_platform.images"
    label = "images"
    default_auto_field = "django.db.models.BigAutoField"
