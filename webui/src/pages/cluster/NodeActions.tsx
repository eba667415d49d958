import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import {
  cordon,
  declareLost,
  drain,
  type NodeAction,
  nodeForecast,
  NODES,
  removeNode,
  undrain,
} from "@/api/cluster";
import type { Node } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { ReadNote } from "@/ui/ReadNote";
import { UsageBar } from "@/ui/UsageBar";
import { notifyError, notifySuccess } from "@/ui/notify";
import { DrainDialog } from "./DrainDialog";
import { DrainImpact } from "./DrainImpact";
import css from "./NodeActions.module.css";

const ACTIONS: Record<NodeAction, (name: string, reason: string) => Promise<unknown>> = {
  drain,
  cordon,
  remove: removeNode,
};

/** What an administrator may do with a node. The dialogs show the impact on others first. */
export function NodeActions({ node, onRemoved }: { node: Node; onRemoved: () => void }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState<NodeAction | null>(null);
  const renew = () => queries.invalidateQueries({ queryKey: NODES });
  const taking = useMutation({
    mutationFn: ({ action, reason }: { action: NodeAction; reason: string }) =>
      ACTIONS[action](node.name, reason),
    onSuccess: (_, { action }) => {
      if (action === "remove") {
        onRemoved();
        notifySuccess(`${node.name} is removed`);
      }
      return renew();
    },
    onError: (error) => notifyError(error),
  });
  const returning = useMutation({
    mutationFn: () => undrain(node.name),
    onSuccess: renew,
    onError: (error) => notifyError(error),
  });
  const losing = useMutation({
    mutationFn: () => declareLost(node.name),
    onSuccess: renew,
    onError: (error) => notifyError(error),
  });
  return (
    <>
      <div className={css.actions}>
        {node.state === "UNREACHABLE" ? (
          <ConfirmButton
            question={`Declare ${node.name} lost?`}
            explanation="Its jobs restart elsewhere at once, without waiting for the end of its lease. Do this only when the machine is certainly off: else they run twice."
            verb="Declare it lost"
            busy={losing.isPending}
            onConfirm={() => losing.mutate()}
          >
            Declare lost
          </ConfirmButton>
        ) : null}
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
        <p className="dim">{doneMessage(node)}</p>
      </div>
      {node.draining ? <DrainProgress node={node} /> : null}
      <DrainDialog
        node={node}
        action={asking}
        onClose={() => setAsking(null)}
        onConfirm={(action, reason) => taking.mutate({ action, reason })}
      />
    </>
  );
}

function doneMessage(node: Node): string {
  if (node.draining) return "Its jobs were asked to go; nothing new is placed here.";
  if (node.cordoned && node.empty) return "Nothing runs here, and nothing new is placed here.";
  if (node.cordoned) return "Nothing new is placed here; what runs goes on.";
  return "Drain restarts its jobs elsewhere; cordon only keeps new ones away.";
}

/** Who is still on a node that is being drained. */
function DrainProgress({ node }: { node: Node }) {
  const query = useQuery({ ...nodeForecast(node.name, "drain"), refetchInterval: 2000 });
  const { data } = query;
  const used = node.gpus.filter((gpu) => gpu.used_by).length;
  return (
    <div className={css.progress}>
      <p role="status">
        <b>Draining</b>
        <span className="dim">
          {node.gpus.length - used} of {pluralize(node.gpus.length, "GPU")} free
        </span>
      </p>
      <UsageBar
        used={node.gpus.length - used}
        owned={node.gpus.length}
        label={`GPUs of ${node.name} that are free`}
      />
      <ReadNote query={query} what="list of jobs that are still here" />
      {data ? (
        <DrainImpact
          forecast={{ ...data, virtual_clusters: [] }}
          title={`${pluralize(data.jobs.length, "job")} still here`}
        />
      ) : null}
    </div>
  );
}
