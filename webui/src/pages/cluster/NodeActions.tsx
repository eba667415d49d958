import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { cordon, drain, nodes, removeNode, undrain, type NodeAction } from "@/api/cluster";
import type { Node } from "@/api/types";
import { tellDone, tellError } from "@/ui/notify";
import { DrainProgress } from "./DrainProgress";
import { TakeOut } from "./TakeOut";
import css from "./NodeActions.module.css";

const DO = { drain, cordon, remove: removeNode };

/** What an administrator may do with a node. What others would notice is told before. */
export function NodeActions({ node, onRemoved }: { node: Node; onRemoved: () => void }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState<NodeAction | null>(null);
  const renew = () => queries.invalidateQueries({ queryKey: nodes.queryKey });
  const taking = useMutation({
    mutationFn: (action: NodeAction) => DO[action](node.name) as Promise<unknown>,
    onSuccess: (_, action) => {
      if (action === "remove") {
        onRemoved();
        tellDone(`${node.name} is removed`);
      }
      return renew();
    },
    onError: (error) => tellError(error),
  });
  const returning = useMutation({
    mutationFn: () => undrain(node.name),
    onSuccess: renew,
    onError: (error) => tellError(error),
  });
  return (
    <>
      <div className={css.actions}>
        {node.cordoned ? (
          <Button
            variant="default"
            loading={returning.isPending}
            onClick={() => returning.mutate()}
          >
            {node.draining ? "Undrain" : "Uncordon"}
          </Button>
        ) : null}
        {node.draining || (node.cordoned && node.empty) ? null : (
          <Button variant="default" loading={taking.isPending} onClick={() => setAsking("drain")}>
            Drain
          </Button>
        )}
        {node.cordoned ? null : (
          <Button variant="default" loading={taking.isPending} onClick={() => setAsking("cordon")}>
            Cordon
          </Button>
        )}
        <Button variant="default" loading={taking.isPending} onClick={() => setAsking("remove")}>
          Remove
        </Button>
        <p className="dim">{wordsOf(node)}</p>
      </div>
      {node.draining ? <DrainProgress node={node} /> : null}
      <TakeOut
        node={node}
        action={asking}
        onClose={() => setAsking(null)}
        onConfirm={(action) => taking.mutate(action)}
      />
    </>
  );
}

function wordsOf(node: Node): string {
  if (node.draining) return "Its jobs were asked to go; nothing new is placed here.";
  if (node.cordoned && node.empty) return "Nothing runs here, and nothing new is placed here.";
  if (node.cordoned) return "Nothing new is placed here; what runs goes on.";
  return "Drained, its jobs restart elsewhere; cordoned, it gets no new ones.";
}
