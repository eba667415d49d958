from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "skep_platform.jobs"
    label = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        super().import_models()
        from skep_platform.jobs import archive, image_saves, saved_views  # noqa: F401  they have models

    def ready(self) -> None:
        from skep_platform.core import ports
        from skep_platform.jobs import queries
        from skep_platform.jobs.lifecycle import stopping
        from skep_platform.jobs.submission import allowances, attachments

        ports.stop_jobs_of.bind(stopping.stop_of)
        ports.archives_in_use.bind(attachments.archives_in_use)
        ports.forget_archives.bind(attachments.forget_archives)
        ports.jobs_on_gpus.bind(queries.jobs_on_gpus)
        ports.jobs_of_attempts.bind(queries.jobs_of_attempts)
        ports.tasks_on_gpus.bind(queries.tasks_on_gpus)
        ports.leased_gpus.bind(queries.leased_gpus)
        ports.attempts_on.bind(queries.attempts_on)
        ports.gpus_in_use.bind(queries.gpus_in_use)
        ports.jobs_in.bind(queries.jobs_in)
        ports.use_of_limits.bind(allowances.use_of)
        ports.find_job.bind(queries.find)
        ports.job_goes_on.bind(queries.goes_on)
