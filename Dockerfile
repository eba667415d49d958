# One file, three targets: `server` (web, workers, beat), `agent`, and the stage that builds the UI.
# Behind a mirror, point the base images elsewhere with --build-arg.
ARG NODE_IMAGE=node:22-bookworm-slim
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${NODE_IMAGE} AS webui
WORKDIR /src/webui
COPY webui/package.json webui/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY webui ./
COPY platform/skep_platform/openapi.yaml /src/platform/skep_platform/openapi.yaml
RUN npm run build

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN python -m venv /opt/skep
ENV PATH=/opt/skep/bin:$PATH
COPY requirements.lock requirements-ldap.lock ./
RUN pip install --no-cache-dir --no-deps -r requirements.lock
# python-ldap has no wheels.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libldap2-dev libsasl2-dev \
    && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir --no-deps -r requirements-ldap.lock
COPY pyproject.toml README.md ./
COPY platform platform
COPY agent agent
COPY scheduler scheduler
COPY client client
COPY jobfile jobfile
COPY diagnosis diagnosis
COPY mkdocs.yml ./
COPY docs docs
COPY scripts/docs-site scripts/docs-site
RUN scripts/docs-site
COPY --from=webui /src/platform/skep_platform/web/static/webui platform/skep_platform/web/static/webui
RUN pip install --no-cache-dir --no-deps .

FROM ${PYTHON_IMAGE} AS server
RUN apt-get update && apt-get install -y --no-install-recommends libldap-2.5-0 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10470 --home-dir /var/lib/skep --create-home skep
COPY --from=build /opt/skep /opt/skep
ENV PATH=/opt/skep/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=skep_platform.settings \
    SKEP_DATA_DIR=/var/lib/skep
USER skep
WORKDIR /var/lib/skep
EXPOSE 8470
CMD ["uvicorn", "skep_platform.asgi:application", "--host", "0.0.0.0", "--port", "8470", "--http", "skep_platform.core.serving:Impatient", "--no-access-log", "--no-proxy-headers", "--ws-max-size", "16777216", "--ws-ping-timeout", "86400", "--ws-per-message-deflate", "false"]

FROM ${PYTHON_IMAGE} AS agent
# Root, because it owns the engine's socket and writes firewall rules (see docs/network.md); it starts no
# privileged container.
RUN apt-get update && apt-get install -y --no-install-recommends nftables nfs-common && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/skep /opt/skep
COPY deploy/agent-entrypoint.sh /usr/local/bin/agent-entrypoint
ENV PATH=/opt/skep/bin:$PATH PYTHONUNBUFFERED=1 SKEP_AGENT_STATE=/var/lib/skep-agent
VOLUME /var/lib/skep-agent
ENTRYPOINT ["agent-entrypoint"]
