import { Button, Loader } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { createJoinToken } from "@/api/cluster";
import type { GridNode } from "@/api/grid";
import type { JoinToken } from "@/api/types";
import { errorMessage } from "@/api/errors";
import { formatDateTime } from "@/format/time";
import { Dialog } from "@/ui/Dialog";
import { CopyableCode } from "@/ui/CopyableCode";
import { Icon } from "@/ui/Icon";
import css from "./AddNodeDialog.module.css";

/** Gives out a join command, and says when its node has come. */
export function AddNodeDialog({ nodes }: { nodes: GridNode[] }) {
  const [known, setKnown] = useState<Set<string> | null>(null);
  const ticket = useMutation({ mutationFn: createJoinToken });
  const joined = known ? nodes.filter((node) => !known.has(node.name)) : [];

  function open() {
    setKnown(new Set(nodes.map((node) => node.name)));
    ticket.mutate();
  }

  return (
    <>
      <Button variant="default" leftSection={<Icon name="plus" size={14} />} onClick={open}>
        Add a node
      </Button>
      <Dialog opened={known !== null} onClose={() => setKnown(null)} title="Add a node" size={620}>
        <div className={css.steps}>
          {ticket.isPending ? <Loader size="sm" type="dots" /> : null}
          {ticket.error ? (
            <p className={css.bad} role="alert">
              {errorMessage(ticket.error)}
            </p>
          ) : null}
          {ticket.data ? <JoinCommand ticket={ticket.data} joined={joined} /> : null}
        </div>
      </Dialog>
    </>
  );
}

/** After so long without the node there is something to look at. */
const SLOW_JOIN_MS = 60_000;

function JoinCommand({ ticket, joined }: { ticket: JoinToken; joined: GridNode[] }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), SLOW_JOIN_MS);
    return () => clearTimeout(timer);
  }, []);
  const server = /--server (\S+)/.exec(ticket.command)?.[1] ?? location.origin;
  return (
    <>
      <p>On the new machine, as a user who may talk to Docker:</p>
      <ol className={css.list}>
        <li>
          Install the agent (Python 3.11 or newer).
          <CopyableCode text="pip install 'skep[agent]'" label="Install command" />
        </li>
        <li>
          Join this cluster. The token lets one node join, once, until{" "}
          {formatDateTime(ticket.expires_at)}
          .
          <CopyableCode text={ticket.command} label="Join command" />
        </li>
        <li>
          Run the agent, and keep it running: as a service, on a machine that stays.
          <CopyableCode text="skep-agent run" label="Run command" />
        </li>
      </ol>
      <p className={css.wait} role="status">
        {joined.length === 0 ? (
          <>
            <Loader size={14} /> Waiting for the agent to join and to report its GPUs
          </>
        ) : (
          <>
            <Icon name="check" size={14} /> {joined.map((node) => node.name).join(", ")} joined
          </>
        )}
      </p>
      {late && joined.length === 0 ? (
        <div className={css.check} role="status">
          <p>
            Nothing has come yet. Look at what the commands printed, then check on that machine:
          </p>
          <ul className={css.list}>
            <li>
              <code>docker info</code> answers without <code>sudo</code>.
            </li>
            <li>
              <code>curl {server}/api/v1/info</code> answers: no firewall or proxy is in between,
              and the address is one that the machine can reach.
            </li>
            <li>
              <code>nvidia-smi</code> lists the GPUs, if it has any.
            </li>
            <li>
              <code>skep-agent run</code> goes on running and prints no error.
            </li>
          </ul>
        </div>
      ) : null}
    </>
  );
}
