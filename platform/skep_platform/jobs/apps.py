from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "skep_platform.jobs"
    label = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.accounts import leaving
        from skep_platform.jobs.life import former_members

        leaving.stopped_by(former_members.stop_of)
