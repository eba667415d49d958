from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    name = "skep_platform.scheduling"
    label = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from skep_platform.celery import app
        from skep_platform.core import ports
        from skep_platform.scheduling import planned, standby, start_intervals
        from skep_platform.scheduling.shared_state import cell_sizes, forecast, nodes_of

        standby.install(app)
        ports.forecast_start.bind(forecast)
        ports.start_interval.bind(start_intervals.of_job)
        ports.cell_sizes.bind(cell_sizes)
        ports.nodes_of_vc.bind(nodes_of)
        ports.vc_capacity.bind(planned.capacity)
