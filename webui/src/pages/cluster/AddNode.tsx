import { Button, Loader, Modal } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { createJoinToken } from "@/api/cluster";
import type { JoinToken, Node } from "@/api/types";
import { explain } from "@/api/errors";
import { fullTime } from "@/format/time";
import { CodeLine } from "@/ui/CodeLine";
import { Icon } from "@/ui/Icon";
import css from "./AddNode.module.css";

/** Gives out a join command, and says when its node has come. */
export function AddNode({ nodes }: { nodes: Node[] }) {
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
      <Modal
        opened={known !== null}
        onClose={() => setKnown(null)}
        title="Add a node"
        size={620}
        centered
      >
        <div className={css.steps}>
          <p>
            Run this on the new machine, as a user who may talk to Docker. It needs the{" "}
            <code>skep</code> package with the <code>agent</code> extra.
          </p>
          {ticket.isPending ? <Loader size="sm" type="dots" /> : null}
          {ticket.error ? (
            <p className={css.bad} role="alert">
              {explain(ticket.error)}
            </p>
          ) : null}
          {ticket.data ? <Ticket ticket={ticket.data} joined={joined} /> : null}
        </div>
      </Modal>
    </>
  );
}

function Ticket({ ticket, joined }: { ticket: JoinToken; joined: Node[] }) {
  return (
    <>
      <CodeLine text={ticket.command} label="Join command" />
      <p className="dim">
        The token in it lets one node join, once, until {fullTime(ticket.expires_at)}.
      </p>
      <p className={css.wait} role="status">
        {joined.length === 0 ? (
          <>
            <Loader size={14} /> Waiting for the node
          </>
        ) : (
          <>
            <Icon name="check" size={14} /> {joined.map((node) => node.name).join(", ")} joined
          </>
        )}
      </p>
    </>
  );
}
