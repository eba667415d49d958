from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "skep_platform.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.accounts import schema  # noqa: F401 registers itself
