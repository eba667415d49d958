import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { cordon, nodes, removeNode, uncordon } from "@/api/cluster";
import type { Node } from "@/api/types";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { tellDone, tellError } from "@/ui/notify";
import css from "./NodeActions.module.css";

/** What an administrator may do with a node. */
export function NodeActions({ node, onRemoved }: { node: Node; onRemoved: () => void }) {
  const queries = useQueryClient();
  const renew = () => queries.invalidateQueries({ queryKey: nodes.queryKey });
  const cordoning = useMutation({
    mutationFn: () => (node.cordoned ? uncordon(node.name) : cordon(node.name)),
    onSuccess: renew,
    onError: (error) => tellError(error),
  });
  const removal = useMutation({
    mutationFn: () => removeNode(node.name),
    onSuccess: () => {
      onRemoved();
      tellDone(`${node.name} is removed`);
      return renew();
    },
    onError: (error) => tellError(error, "The node was not removed"),
  });
  return (
    <div className={css.actions}>
      <Button variant="default" loading={cordoning.isPending} onClick={() => cordoning.mutate()}>
        {node.cordoned ? "Uncordon" : "Cordon"}
      </Button>
      <ConfirmButton
        question={`Remove ${node.name}?`}
        explanation="Its credential stops working at once. This is possible only while nothing runs on it; cordon it first and wait."
        verb="Remove the node"
        busy={removal.isPending}
        onConfirm={() => removal.mutate()}
      >
        Remove
      </ConfirmButton>
      <p className="dim">
        {node.cordoned
          ? "Nothing new is placed here; what runs goes on."
          : "Cordoned, it gets no new tasks; what runs goes on."}
      </p>
    </div>
  );
}
