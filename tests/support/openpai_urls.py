"""The routes of a server with SKEP_OPENPAI_API=root, for `pytest.mark.urls`."""

from __future__ import annotations

from django.test import override_settings

from skep_platform import urls as own
from skep_platform.compat import urls as compat

with override_settings(SKEP_OPENPAI_API="root"):
    urlpatterns = [*compat.patterns(), *own.urlpatterns]

handler400, handler403 = own.handler400, own.handler403
handler404, handler500 = own.handler404, own.handler500
