"""The pages as a visitor sees them, in Chromium, against a whole Skep with Docker."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.stack]


def test_a_job_is_submitted_and_watched_to_its_last_log_line(visit):
    visit("submit_and_watch")


def test_a_failed_job_says_why_and_leads_to_the_line_that_tells(visit):
    visit("failure")


def test_a_shell_in_a_running_task_takes_keys_sizes_and_tells_its_exit(visit):
    visit("terminal")


def test_jobs_are_tagged_cloned_with_their_secrets_and_imported(visit):
    visit("again")


def test_a_folder_chosen_in_the_page_lies_in_the_container(visit):
    visit("working_files")


def test_a_page_outlives_its_server_and_misses_no_line(visit, skep):
    visit("outage", SKEP_WEB_PID=str(skep.pids()["web"]))


def test_a_page_whose_parts_did_not_arrive_is_loaded_anew(visit):
    visit("parts_lost")


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


def test_quotas_are_given_and_refused(visit):
    visit("quota")


def test_sessions_and_tokens_begin_and_end(visit):
    visit("session")


def test_finding_u10_a_session_that_ends_is_asked_for_over_the_page(visit):
    visit("expiry")


def test_finding_u12_a_manager_runs_a_team_and_admins_look_after_people(visit):
    visit("people")


def test_finding_u14_u20_every_example_is_taken_and_pages_fit_a_phone(visit):
    visit("examples")


def test_finding_u9_a_job_that_loses_its_storage_is_asked_for(visit):
    visit("storage")
