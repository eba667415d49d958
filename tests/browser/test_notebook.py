"""A real JupyterLab and a real TensorBoard through the proxy of apps, in Chromium."""

from __future__ import annotations

import docker
import pytest
from tests.support.notebook_image import notebook_image

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.stack, pytest.mark.long]


def test_a_cell_runs_in_jupyterlab_and_tensorboard_shows_its_scalar(visit):
    visit("notebook", SKEP_IMAGE=notebook_image(docker.from_env()))
