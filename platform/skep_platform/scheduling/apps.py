from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "skep_platform.scheduling"
    label = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.jobs.intake import cell_sizes as sizes_of_jobs
        from skep_platform.jobs.intake import forecast as jobs
        from skep_platform.scheduling.cell_sizes import sizes
        from skep_platform.scheduling.forecast import forecast

        jobs.told_by(forecast)
        sizes_of_jobs.told_by(sizes)
