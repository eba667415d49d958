"""What holds for every page, in Chromium, against a whole Skep with Docker."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.stack]


def test_finding_u20_every_page_fits_a_phone_and_logs_are_in_sight(visit):
    visit("phone")


def test_every_page_leads_to_its_documentation_which_is_searched(visit):
    visit("documentation")


@pytest.mark.parametrize("width", ["1440", pytest.param("390", marks=pytest.mark.long)])
def test_finding_u28_axe_finds_nothing_on_any_page_in_any_scheme(visit, width):
    visit("accessibility", SKEP_WIDTH=width)


def test_finding_u21_an_open_page_at_rest_costs_next_to_nothing(visit):
    visit("at_rest")


@pytest.mark.long
def test_every_page_is_whole_for_every_role_and_shows_what_the_role_may_see(visit):
    visit("roles")
