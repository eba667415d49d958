import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { cluster, NODES } from "@/api/cluster";
import { grid, type GridNode } from "@/api/grid";
import { me } from "@/api/session";
import type { Cluster } from "@/api/types";
import { shortModel } from "@/format/names";
import { pluralize } from "@/format/numbers";
import { useLiveQueries, usePoll } from "@/live/live";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { PageHeader } from "@/ui/PageHeader";
import { ReadNote } from "@/ui/ReadNote";
import { SkeletonRows } from "@/ui/Skeleton";
import { UsageBar } from "@/ui/UsageBar";
import { StaleNote } from "@/ui/StaleNote";
import { AddNodeDialog } from "./AddNodeDialog";
import { ClusterToolbar } from "./ClusterToolbar";
import { NodeDrawer } from "./NodeDrawer";
import { NodeGrid } from "./NodeGrid";
import { type ColourBy, matching, NO_FILTER, type NodeFilter } from "./filter";
import css from "./ClusterPage.module.css";

const KEYS = [grid.queryKey, [...NODES, "one"], cluster.queryKey];

export function ClusterPage() {
  const { data: user } = useQuery(me);
  const list = useQuery({ ...grid, refetchInterval: usePoll() });
  const all = list.data?.nodes;
  const summary = useQuery(cluster);
  const many = (all?.length ?? 0) > 100;
  useLiveQueries("cluster", "", KEYS, many ? 5000 : 1500);
  return (
    <>
      <PageHeader title="Cluster" note={all ? sizeText(all.length, summary.data) : null}>
        <ExportButton list="nodes" />
        {user?.is_admin ? <AddNodeDialog nodes={all ?? []} /> : null}
      </PageHeader>
      <ReadNote query={summary} what="use by GPU model" wide />
      {summary.data ? <ModelUsage cluster={summary.data} /> : null}
      {list.isPending ? <SkeletonRows rows={10} height={64} /> : null}
      {list.isError && !list.data ? (
        <ErrorState error={list.error} what="list of nodes" retry={() => void list.refetch()} />
      ) : null}
      <StaleNote query={list} what="list of nodes" />
      {all?.length === 0 ? <NoNodes admin={user?.is_admin ?? false} /> : null}
      {all && all.length > 0 ? <Nodes all={all} /> : null}
    </>
  );
}

function sizeText(nodes: number, summary: Cluster | undefined): string {
  if (!summary) return pluralize(nodes, "node");
  const gpus = Object.values(summary.gpus).reduce((sum, each) => sum + each.total, 0);
  return `${pluralize(nodes, "node")}, ${pluralize(gpus, "GPU")}`;
}

function Nodes({ all }: { all: GridNode[] }) {
  const [filter, setFilter] = useState<NodeFilter>(NO_FILTER);
  const [colourBy, setColourBy] = useState<ColourBy>("use");
  const [open, setOpen] = useState<string | null>(null);
  const shown = useMemo(() => matching(all, filter), [all, filter]);
  return (
    <>
      <ClusterToolbar
        nodes={all}
        filter={filter}
        onFilter={setFilter}
        colourBy={colourBy}
        onColourBy={setColourBy}
      />
      {shown.length === 0 ? (
        <EmptyState title="No node matches">Choose another name or state.</EmptyState>
      ) : (
        <NodeGrid nodes={shown} all={all} colourBy={colourBy} onOpen={setOpen} />
      )}
      <NodeDrawer
        name={all.some((node) => node.name === open) ? open : null}
        onClose={() => setOpen(null)}
      />
    </>
  );
}

function NoNodes({ admin }: { admin: boolean }) {
  return (
    <EmptyState title="The cluster has no nodes yet">
      {admin
        ? "“Add a node” gives you the command to run on the first one."
        : "An administrator has to add the first one."}
    </EmptyState>
  );
}

/** The cluster in numbers, one figure per GPU model. */
function ModelUsage({ cluster }: { cluster: Cluster }) {
  const models = Object.entries(cluster.gpus);
  if (models.length === 0) return null;
  return (
    <ul className={css.strip} aria-label="GPUs by model">
      {models.map(([model, { total, used, bad }]) => (
        <li key={model} className={css.model}>
          <span className={css.name} title={model}>
            {shortModel(model)}
          </span>
          <span className={css.number}>
            <b className="num">{(total - used - bad).toLocaleString("en")}</b> free of{" "}
            {total.toLocaleString("en")}
            {bad > 0 ? <span className={css.bad}>{bad} bad</span> : null}
          </span>
          <UsageBar used={used} owned={total} label={`${model} in use`} />
        </li>
      ))}
    </ul>
  );
}
