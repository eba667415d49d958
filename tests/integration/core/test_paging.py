"""Pages of lists: every row once, forwards and backwards, in any order."""

from __future__ import annotations

import pytest
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user

from skep_platform.tenancy import memberships
from skep_platform.tenancy import services as tenancy

pytestmark = pytest.mark.django_db


@pytest.fixture
def api():
    return Api(make_user(admin=True))


@pytest.fixture
def people():
    """A virtual cluster with seven members."""
    vc = tenancy.create(make_user(admin=True), "vision")
    names = [make_user().username for _ in range(7)]
    for name in names:
        memberships.set_member(None, vc, name, "member")
    return sorted(names)


def walk(api: Api, url: str, direction: str, **query: object) -> list[list[dict]]:
    """Follow `next` or `previous` from a page on."""
    page = api.get(url, **query).json()
    pages = [page["results"]]
    while page[direction]:
        page = api.client.get(page[direction]).json()
        pages.append(page["results"])
    return pages


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
def test_each_row_is_on_one_page_forwards_and_back(api, people, limit):
    """The column is an annotation: `username` of a membership."""
    url = "/virtual-clusters/vision/members"
    forwards = walk(api, url, "next", limit=limit)
    assert [row["username"] for page in forwards for row in page] == people
    assert {len(page) for page in forwards[:-1]} <= {limit}

    page = api.get(url, limit=limit).json()
    while page["next"]:
        page = api.client.get(page["next"]).json()
    back = [page["results"]]
    while page["previous"]:
        page = api.client.get(page["previous"]).json()
        back.append(page["results"])
    assert back[::-1] == forwards
    assert page["results"][0]["username"] == people[0]


def test_a_page_of_one_row_has_no_neighbours(api):
    tenancy.create(make_user(admin=True), "vision")
    page = api.get("/virtual-clusters").json()
    assert (page["next"], page["previous"], len(page["results"])) == (None, None, 1)


@pytest.mark.parametrize("path", ["/nodes", "/users", "/virtual-clusters", "/announcements"])
@pytest.mark.parametrize(
    "cursor", ["x", "bnVsbA", "W10", "WzEsMiwzXQ", "W251bGwsZmFsc2Vd", "A" * 5000]
)
def test_a_cursor_that_no_page_gave_out_is_not_found(api, path, cursor):
    assert refusal(api.get(path, cursor=cursor)) == (404, "not_found")


def test_the_number_of_an_id_may_be_absurd(api):
    """`[99999999999999999999999, false]`, as the cursor of a list that is ordered by number."""
    tenancy.create(make_user(admin=True), "vision")
    cursor = "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5LGZhbHNlXQ"
    assert api.get("/announcements", cursor=cursor).status_code in (200, 404)
