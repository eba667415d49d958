"""What `skep migrate` reads of an OpenPAI cluster: its REST server and HiveD's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import httpx


class OpenPai:
    """What is asked of OpenPAI's REST server."""

    def __init__(self, server: str, token: str) -> None:
        import httpx

        self._http = httpx.Client(
            base_url=server.rstrip("/") + "/rest-server/api/v2/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )

    def __enter__(self) -> OpenPai:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **params: Any) -> Any:
        """Return the answer read as JSON. Raises SkepError."""
        from skep_client.errors import ServerUnreachable

        answer = self._answer(path, params)
        try:
            return answer.json()
        except ValueError:
            raise ServerUnreachable(f"{answer.url} is no REST server of OpenPAI.") from None

    def text(self, path: str) -> str:
        """Return the answer as it is. Raises SkepError."""
        return self._answer(path, {}).text

    def _answer(self, path: str, params: dict[str, Any]) -> httpx.Response:
        import httpx

        from skep_client.errors import ServerUnreachable, SkepError

        try:
            answer = self._http.get(path, params=params)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerUnreachable(f"OpenPAI does not answer: {error}") from None
        if answer.is_success:
            return answer
        try:
            body = answer.json()
        except ValueError:
            body = None
        known = body if isinstance(body, dict) else {}
        message = f"OpenPAI: {known.get('message') or answer.reason_phrase}"
        raise SkepError(answer.status_code, str(known.get("code", "openpai")), message)


def hived_in(text: str) -> str:
    """Return the configuration of HiveD, where the text is OpenPAI's services-configuration.yaml;
    else the text itself. Raises typer.BadParameter."""
    from skep_jobfile import InvalidJobFile, yaml_text

    try:
        data = yaml_text.construct(yaml_text.compose(text, max_depth=64, max_nodes=500_000))
    except InvalidJobFile as error:
        raise typer.BadParameter(f"the file of HiveD is no YAML: {error}") from None
    services = data if isinstance(data, dict) else {}
    if "hivedscheduler" not in services:
        return text
    inside = (services["hivedscheduler"] or {}).get("config")
    if not isinstance(inside, str):
        raise typer.BadParameter("services-configuration.yaml has no hivedscheduler.config.")
    return inside
