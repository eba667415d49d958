# One file, two images: `server` (web, workers, beat) and `agent`; the other stages build what they hold.
# Behind a mirror, point the base images elsewhere with --build-arg.
ARG NODE_IMAGE=node:22-bookworm-slim
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${NODE_IMAGE} AS webui
WORKDIR /src/webui
COPY webui/package.json webui/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY webui/sbom.mjs ./
RUN node sbom.mjs /src/webui.cdx.json
COPY webui ./
COPY platform/skep_platform/openapi.yaml /src/platform/skep_platform/openapi.yaml
RUN npm run build

# Every package as a wheel, built by tools that are pinned, too.
FROM ${PYTHON_IMAGE} AS packages
# python-ldap has no wheels.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev libldap2-dev libsasl2-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
RUN python -m venv /opt/build
# Compiled files neither name the folder that they were built in, nor depend on a random number.
ENV PATH=/opt/build/bin:$PATH CFLAGS=-g0 PYTHONHASHSEED=0
COPY requirements-image.lock ./
RUN pip install --no-cache-dir --no-deps -r requirements-image.lock
COPY requirements-server.lock requirements-ldap.lock requirements-agent.lock ./
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels \
    -r requirements-server.lock -r requirements-ldap.lock -r requirements-agent.lock

FROM packages AS skep
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
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist .

FROM packages AS server-environment
RUN python -m venv --without-pip /opt/skep
RUN pip --python /opt/skep/bin/python install --no-index --find-links /wheels --no-deps --no-compile \
    -r requirements-server.lock -r requirements-ldap.lock \
    # Its own tests, 40 MB.
    && find /opt/skep/lib/python3*/site-packages/scipy -type d -name tests -prune -exec rm -r {} +
RUN python -m compileall -q --invalidation-mode unchecked-hash /opt/skep/lib
COPY --from=skep /dist /dist
RUN pip --python /opt/skep/bin/python install --no-deps --no-compile /dist/*.whl \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/skep/lib/python3*/site-packages/skep_*
COPY --from=webui /src/webui.cdx.json /opt/skep/sbom/webui.cdx.json
RUN mkdir -p /opt/skep/sbom && cyclonedx-py environment --output-reproducible --output-file /opt/skep/sbom/python.cdx.json /opt/skep/bin/python

FROM ${PYTHON_IMAGE} AS server
RUN apt-get update && apt-get install -y --no-install-recommends libldap-2.5-0 && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10470 --home-dir /var/lib/skep --create-home skep
COPY --from=server-environment /opt/skep /opt/skep
ENV PATH=/opt/skep/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=skep_platform.settings \
    SKEP_DATA_DIR=/var/lib/skep
USER skep
WORKDIR /var/lib/skep
EXPOSE 8470
CMD ["uvicorn", "skep_platform.asgi:application", "--host", "", "--port", "8470", "--http", "skep_platform.core.serving:Impatient", "--no-access-log", "--no-proxy-headers", "--ws-max-size", "16777216", "--ws-ping-timeout", "86400", "--ws-per-message-deflate", "false", "--timeout-graceful-shutdown", "40"]

FROM packages AS agent-environment
RUN python -m venv --without-pip /opt/skep
RUN pip --python /opt/skep/bin/python install --no-index --find-links /wheels --no-deps --no-compile \
    -r requirements-agent.lock
RUN python -m compileall -q --invalidation-mode unchecked-hash /opt/skep/lib
COPY --from=skep /dist /dist
RUN pip --python /opt/skep/bin/python install --no-deps --no-compile /dist/*.whl \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/skep/lib/python3*/site-packages/skep_*
RUN mkdir -p /opt/skep/sbom && cyclonedx-py environment --output-reproducible --output-file /opt/skep/sbom/python.cdx.json /opt/skep/bin/python

FROM ${PYTHON_IMAGE} AS agent
# Root, because it owns the engine's socket and writes firewall rules (see docs/network.md); it starts no
# privileged container.
RUN apt-get update && apt-get install -y --no-install-recommends nftables nfs-common && rm -rf /var/lib/apt/lists/*
COPY --from=agent-environment /opt/skep /opt/skep
COPY deploy/agent-entrypoint.sh /usr/local/bin/agent-entrypoint
ENV PATH=/opt/skep/bin:$PATH PYTHONUNBUFFERED=1 SKEP_AGENT_STATE=/var/lib/skep-agent
VOLUME /var/lib/skep-agent
ENTRYPOINT ["agent-entrypoint"]
