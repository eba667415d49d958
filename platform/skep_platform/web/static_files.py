"""Static files, read whole: WhiteNoise's streams are synchronous, which Django's ASGI handler
would only collect in memory again, with a warning each time."""

from __future__ import annotations

from io import BytesIO

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


class StaticFiles(WhiteNoiseMiddleware):
    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        with found.file or BytesIO() as file:
            response = HttpResponse(file.read(), status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response
