"""Pages of jobs as a visitor sees them, in Chromium, against a whole Skep with Docker."""

from __future__ import annotations

import docker
import psycopg
import pytest
from psycopg.sql import SQL
from tests.support import docker_registry
from tests.support.docker_images import import_busybox, random_bytes
from tests.support.slow_proxy import slow_proxy
from tests.support.stack import eventually

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.stack]
# What dates a job: tables, their columns, and which rows are the job's.
LONG_AGO = (
    ("jobs_job", ("created_at", "started_at", "finished_at"), "id = %s"),
    ("jobs_jobattempt", ("placed_at", "started_at", "finished_at"), "job_id = %s"),
    (
        *("jobs_lease", ("acquired_at", "released_at")),
        "attempt_id IN (SELECT id FROM jobs_taskattempt WHERE job_id = %s)",
    ),
)
# Periodic work that a job goes through on its way to the archive.
OF_ARCHIVE = (
    *("skep.usage.count", "skep.telemetry.delete_old_logs"),
    "skep.operations.archive_jobs",
)


def test_a_job_is_submitted_and_watched_to_its_last_log_line(visit):
    visit("submit_and_watch")


def test_a_failed_job_says_why_and_leads_to_the_line_that_shows(visit):
    visit("failure")


def test_a_shell_in_a_running_task_takes_keys_sizes_and_reports_its_exit(visit):
    visit("terminal")


def test_jobs_are_tagged_cloned_with_their_secrets_and_imported(visit):
    visit("again")


def test_a_folder_chosen_in_the_page_lies_in_the_container(visit):
    visit("working_files")


def test_a_page_outlives_its_server_and_misses_no_line(visit, skep):
    visit("outage", SKEP_WEB_PID=str(skep.pids()["web"]))


def test_a_page_whose_parts_did_not_arrive_is_loaded_anew(visit):
    visit("parts_lost")


def test_a_job_of_long_ago_is_found_in_the_archive(visit, skep):
    image = import_busybox(docker.from_env(), "skep-test/browser:1")
    job = skep.submit(name="long-ago", image=image, command="echo hello; exit 3").id
    skep.wait_for_end(job)
    with skep.api() as api, psycopg.connect(skep.database_url) as database:
        eventually(lambda: api.get(f"/jobs/{job}").json()["diagnosis"] is not None, 60)
        for table, columns, whose in LONG_AGO:
            moved = ", ".join(f"{column} = {column} - '400 days'::interval" for column in columns)
            database.execute(SQL(f"UPDATE {table} SET {moved} WHERE {whose}"), [job])
        database.commit()

        def archived() -> bool:
            skep.run_tasks(*OF_ARCHIVE)
            return api.get(f"/archived-jobs/{job}").status_code == 200

        eventually(archived, 60, every_s=1)
    visit("archive", SKEP_JOB=job)


def test_mistakes_in_a_job_file_show_at_their_line(visit):
    visit("editor_errors")


def test_running_and_waiting_jobs_are_stopped(visit):
    visit("stop")


def test_finding_u14_every_example_is_taken(visit):
    visit("examples")


def test_finding_u9_a_job_that_loses_its_storage_is_asked_for(visit):
    visit("storage")


def test_finding_u30_a_line_of_a_log_has_an_address(visit):
    visit("line_link")


def test_the_loss_of_a_training_is_plotted_and_runs_are_compared(visit):
    visit("metrics")


def test_what_a_page_says_of_a_job_it_offers_as_a_button(visit):
    visit("steer")


def test_home_shows_what_concerns_its_reader(visit):
    visit("home")


def test_a_job_is_written_in_a_form_and_in_its_text(visit):
    visit("form")


def test_the_pull_of_an_image_is_watched(visit, tmp_path):
    engine = docker.from_env()
    with (
        docker_registry.registry(tmp_path, is_open=True) as registry,
        slow_proxy(registry.address, 2_000_000) as slow,
    ):
        name = f"{registry.address}/team/slow:1"
        import_busybox(engine, name, files={"blob": random_bytes(24_000_000)})
        engine.api.push(name)
        engine.images.remove(name, force=True)
        visit("pull", SKEP_SLOW_IMAGE=f"{slow}/team/slow:1")
        engine.images.remove(f"{slow}/team/slow:1", force=True)


def test_jobs_are_found_by_cause_and_time_and_changed_together(visit):
    visit("job_list")


def test_a_running_task_is_saved_as_an_image_and_used_by_the_next_job(visit, tmp_path):
    engine = docker.from_env()
    with docker_registry.registry(tmp_path) as registry:
        visit(
            "save_image",
            SKEP_REGISTRY=registry.address,
            SKEP_REGISTRY_USER=docker_registry.USER,
            SKEP_REGISTRY_PASSWORD=docker_registry.PASSWORD,
        )
        for image in engine.images.list():  # pulled by the second job
            if any(tag.startswith(f"{registry.address}/") for tag in image.tags):
                engine.images.remove(image.id, force=True)


def test_tasks_and_attempts_are_seen_side_by_side(visit):
    visit("ranks")


def test_templates_are_found_starred_used_and_published(visit):
    visit("templates")


def test_the_bell_counts_a_failure_and_leads_to_it(visit):
    visit("bell")


def test_a_shared_job_is_read_by_whom_it_is_shared_with(visit):
    visit("share")


@pytest.mark.long
def test_an_idle_job_is_warned_and_exempted_on_its_page(visit):
    visit("idle")
