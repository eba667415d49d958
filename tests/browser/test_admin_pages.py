"""Pages of the cluster, of virtual clusters, people and settings, in Chromium, against a whole Skep
with Docker."""

from __future__ import annotations

import docker
import httpx
import pytest
from tests.support import docker_registry
from tests.support.docker_images import import_busybox, random_bytes

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.stack]


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


def test_an_announcement_is_shown_to_other_users(visit):
    visit("announcement")


def test_an_admin_adds_a_storage_and_files_go_up_and_down(visit, skep, storage_root):
    with httpx.Client(headers={"Authorization": f"Bearer {skep.token}"}, timeout=60) as api:
        api.post(f"{skep.url}/api/v1/groups", json={"name": "readers"}).raise_for_status()
    visit("storage_files", SKEP_STORAGE=str(storage_root / "files"))
    assert (storage_root / "files" / "runs" / "note.txt").read_text() == "written here\n"
    assert not (storage_root / "files" / "large.bin").exists()


def test_an_admin_adds_a_bucket_whose_keys_are_never_shown_again(visit):
    visit("bucket")


def test_images_are_kept_by_vc_admins_and_pulled_to_nodes_in_advance(visit, tmp_path):
    engine = docker.from_env()
    with docker_registry.registry(tmp_path, is_open=True) as registry:
        name = f"{registry.address}/team/prefetched:1"
        import_busybox(engine, name, files={"blob": random_bytes(1000)})
        engine.api.push(name)
        engine.images.remove(name, force=True)
        visit("images", SKEP_PREFETCHED=name)
        assert name in engine.images.get(name).tags  # both nodes share this engine
        engine.images.remove(name, force=True)


def test_ssh_keys_are_kept_in_the_settings(visit):
    visit("ssh_keys")


def test_a_vc_admin_sets_limits_and_submits_are_held_to_them(visit):
    visit("limits")


def test_an_account_is_linked_to_single_sign_on_in_the_settings(visit, issuer):
    visit("sso", SKEP_ISSUER=issuer)
