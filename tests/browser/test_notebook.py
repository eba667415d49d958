"""A real JupyterLab, TensorBoard and code-server through the proxy of apps, in Chromium."""

from __future__ import annotations

import docker
import pytest
from tests.support.code_server_image import code_server_image
from tests.support.notebook_image import notebook_image

pytestmark = [pytest.mark.browser, pytest.mark.docker, pytest.mark.stack, pytest.mark.long]


def test_a_cell_runs_in_jupyterlab_and_tensorboard_shows_its_scalar(visit):
    visit("notebook", SKEP_IMAGE=notebook_image(docker.from_env()))


def test_a_terminal_of_vs_code_writes_a_file_which_the_editor_shows(visit):
    visit("code_server", SKEP_IMAGE=code_server_image(docker.from_env()))
