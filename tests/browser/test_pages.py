"""The pages as a visitor sees them, in Chromium, against a whole Skep with Docker."""

from __future__ import annotations

import docker
import httpx
import psycopg
import pytest
from psycopg.sql import SQL
from tests.support import components, docker_registry
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


def test_the_cluster_shows_every_gpu_and_nodes_are_cordoned(visit):
    visit("cluster")


def test_cells_are_given_where_they_fit_and_a_member_sees_them(visit):
    visit("cells")


def test_a_drained_nodes_job_is_forecast_and_goes_on_elsewhere(visit):
    visit("drain")


def test_a_virtual_cluster_shows_its_jobs_in_cells_queue_and_time_line(visit):
    visit("vc")


def test_policies_are_compared_on_made_up_jobs_and_on_history(visit):
    visit("simulator")


def test_the_jobs_of_now_are_simulated_with_more_nodes(visit):
    visit("simulator_now")


def test_a_policy_is_forecast_before_it_is_saved(visit):
    visit("policy-forecast")


def test_quotas_are_given_and_refused(visit):
    visit("quota")


def test_sessions_and_tokens_begin_and_end(visit):
    visit("session")


def test_security_keys_and_passkeys_log_in(visit):
    visit("security_keys")


def test_who_forgot_the_password_sets_a_new_one_by_e_mail(visit, newest_mail):
    visit("recovery", SKEP_MAIL=str(newest_mail))


def test_a_program_is_logged_in_by_the_browser(visit):
    visit("device")


def test_finding_u10_a_session_that_ends_is_asked_for_over_the_page(visit):
    visit("expiry")


def test_finding_u12_a_vc_admin_runs_a_team_and_admins_look_after_people(visit):
    visit("people")


def test_groups_give_roles_and_a_file_brings_people_into_them(visit):
    visit("groups")


def test_a_service_account_gets_a_token_which_an_admin_revokes(visit):
    visit("tokens")


def test_the_audit_log_shows_who_changed_what_and_each_only_what_concerns_them(visit):
    visit("audit")


def test_finding_u14_every_example_is_taken(visit):
    visit("examples")


def test_finding_u20_every_page_fits_a_phone_and_logs_are_in_sight(visit):
    visit("phone")


def test_every_page_leads_to_its_documentation_which_is_searched(visit):
    visit("documentation")


def test_an_announcement_is_shown_to_other_users(visit):
    visit("announcement")


def test_finding_u9_a_job_that_loses_its_storage_is_asked_for(visit):
    visit("storage")


def test_an_admin_adds_a_storage_and_files_go_up_and_down(visit, skep, storage_root):
    with httpx.Client(headers={"Authorization": f"Bearer {skep.token}"}) as api:
        api.post(f"{skep.url}/api/v1/groups", json={"name": "readers"}).raise_for_status()
    visit("storage_files", SKEP_STORAGE=str(storage_root / "files"))
    assert (storage_root / "files" / "runs" / "note.txt").read_text() == "written here\n"
    assert not (storage_root / "files" / "large.bin").exists()


def test_an_admin_adds_a_bucket_whose_keys_are_never_shown_again(visit):
    visit("bucket")


@pytest.mark.parametrize("width", ["1440", pytest.param("390", marks=pytest.mark.long)])
def test_finding_u28_axe_finds_nothing_on_any_page_in_any_scheme(visit, width):
    visit("accessibility", SKEP_WIDTH=width)


def test_finding_u21_an_open_page_at_rest_costs_next_to_nothing(visit):
    visit("at_rest")


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
    if reason := docker_registry.missing():
        (pytest.fail if components.must_be_complete() else pytest.skip)(reason)
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


def test_images_are_kept_by_vc_admins_and_pulled_to_nodes_in_advance(visit, tmp_path):
    if reason := docker_registry.missing():
        (pytest.fail if components.must_be_complete() else pytest.skip)(reason)
    engine = docker.from_env()
    with docker_registry.registry(tmp_path, is_open=True) as registry:
        name = f"{registry.address}/team/prefetched:1"
        import_busybox(engine, name, files={"blob": random_bytes(1000)})
        engine.api.push(name)
        engine.images.remove(name, force=True)
        visit("images", SKEP_PREFETCHED=name)
        assert name in engine.images.get(name).tags  # both nodes share this engine
        engine.images.remove(name, force=True)


def test_a_running_task_is_saved_as_an_image_and_used_by_the_next_job(visit, tmp_path):
    if reason := docker_registry.missing():
        (pytest.fail if components.must_be_complete() else pytest.skip)(reason)
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


def test_ssh_keys_are_kept_in_the_settings(visit):
    visit("ssh_keys")


def test_tasks_and_attempts_are_seen_side_by_side(visit):
    visit("ranks")


def test_templates_are_found_starred_used_and_published(visit):
    visit("templates")


def test_the_bell_counts_a_failure_and_leads_to_it(visit):
    visit("bell")


def test_a_vc_admin_sets_limits_and_submits_are_held_to_them(visit):
    visit("limits")


def test_a_shared_job_is_read_by_whom_it_is_shared_with(visit):
    visit("share")


@pytest.mark.long
def test_an_idle_job_is_warned_and_exempted_on_its_page(visit):
    visit("idle")


def test_an_account_is_linked_to_single_sign_on_in_the_settings(visit, issuer):
    visit("sso", SKEP_ISSUER=issuer)


@pytest.mark.long
def test_every_page_is_whole_for_every_role_and_shows_what_the_role_may_see(visit):
    visit("roles")
