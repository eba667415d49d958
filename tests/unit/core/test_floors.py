"""Versions below the fix of a known way out of a container."""

from __future__ import annotations

import pytest

from skep_platform.cluster.floors import below


@pytest.mark.parametrize(
    ("component", "version", "floor"),
    [
        ("runc", "1.1.11", "1.1.12"),
        ("runc", "1.0.0-rc10", "1.1.12"),
        ("runc", "1.1.12", ""),
        ("runc", "1.2.0+ds1", ""),
        ("runc", "1.1.5+ds1-1", "1.1.12"),
        ("runc", "1.1.5+ds1-1+deb12u1", ""),  # DSA-5615-1
        ("runc", "1.1.7-0ubuntu1~22.04.1", "1.1.12"),
        ("runc", "1.1.7-0ubuntu1~22.04.2", ""),  # USN-6619-1
        ("runc", "1.1.7-0ubuntu1~22.04.10", ""),
        ("toolkit", "1.17.7", "1.17.8"),
        ("toolkit", "1.17.8-rc.1", ""),
        ("toolkit", "1.18.0", ""),
        ("driver", "535.183.06", "535.216.1"),
        ("driver", "535.230.02", ""),
        ("driver", "550.90.07", "550.127.5"),
        ("driver", "560.35.03", "565.57.1"),
        ("driver", "470.256.02", "565.57.1"),
        ("driver", "580.65.06", ""),
        ("driver", "", ""),
        ("driver", "unknown", ""),
    ],
)
def test_finding_s16_a_version_is_judged_by_its_branch_and_its_package(component, version, floor):
    found = below({component: version})
    assert [one.floor for one in found] == ([floor] if floor else [])
    assert all(one.cve in one.message and version in one.message for one in found)


def test_what_a_node_does_not_report_is_not_judged():
    assert below({}) == []
