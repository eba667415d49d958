#!/bin/sh
# Joins once (a join token is only needed on the first start), then runs the agent.
set -eu
state=${SKEP_AGENT_STATE:-/var/lib/skep-agent}
if [ ! -e "$state/credential.json" ]; then
    : "${SKEP_SERVER:?the address of Skep, for example https://skep.example.org}"
    : "${SKEP_JOIN_TOKEN:?a join token: an admin makes one under Cluster, Add a node}"
    skep-agent join --server "$SKEP_SERVER" --token "$SKEP_JOIN_TOKEN" \
        --name "${SKEP_NODE_NAME:-$(hostname)}" --state "$state"
fi
unset SKEP_JOIN_TOKEN
exec skep-agent run --state "$state" "$@"
