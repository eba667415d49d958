import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { cluster, nodes } from "@/api/cluster";
import { me } from "@/api/session";
import type { Node } from "@/api/types";
import { count } from "@/format/size";
import { useLiveQueries, usePoll } from "@/live/live";
import { Blank, Failure } from "@/ui/Blank";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { AddNode } from "./AddNode";
import { ClusterTools } from "./ClusterTools";
import { matching, NO_FILTER, type ColourBy, type NodeFilter } from "./filter";
import { ModelStrip } from "./ModelStrip";
import { NodeDrawer } from "./NodeDrawer";
import { NodeGrid } from "./NodeGrid";

const KEYS = [nodes.queryKey, cluster.queryKey];

export function ClusterPage() {
  const { data: user } = useQuery(me);
  const list = useQuery({ ...nodes, refetchInterval: usePoll() });
  const summary = useQuery(cluster);
  const many = (list.data?.length ?? 0) > 100;
  useLiveQueries("cluster", "", KEYS, many ? 5000 : 1500);

  const gpus = Object.values(summary.data?.gpus ?? {}).reduce((sum, each) => sum + each.total, 0);
  return (
    <>
      <PageHeader
        title="Cluster"
        note={list.data ? `${count(list.data.length, "node")}, ${count(gpus, "GPU")}` : null}
      >
        {user?.is_admin ? <AddNode nodes={list.data ?? []} /> : null}
      </PageHeader>
      {summary.data ? <ModelStrip cluster={summary.data} /> : null}
      {list.isPending ? <SkeletonRows rows={10} height={64} /> : null}
      {list.isError && !list.data ? (
        <Failure error={list.error} what="list of nodes" retry={() => void list.refetch()} />
      ) : null}
      {list.data?.length === 0 ? <NoNodes admin={user?.is_admin ?? false} /> : null}
      {list.data && list.data.length > 0 ? <Nodes all={list.data} /> : null}
    </>
  );
}

function Nodes({ all }: { all: Node[] }) {
  const [filter, setFilter] = useState<NodeFilter>(NO_FILTER);
  const [colourBy, setColourBy] = useState<ColourBy>("use");
  const [open, setOpen] = useState<string | null>(null);
  const shown = useMemo(() => matching(all, filter), [all, filter]);
  return (
    <>
      <ClusterTools
        nodes={all}
        filter={filter}
        onFilter={setFilter}
        colourBy={colourBy}
        onColourBy={setColourBy}
      />
      {shown.length === 0 ? (
        <Blank title="No node matches">Choose another name or state.</Blank>
      ) : (
        <NodeGrid nodes={shown} all={all} colourBy={colourBy} onOpen={setOpen} />
      )}
      <NodeDrawer
        node={all.find((node) => node.name === open) ?? null}
        onClose={() => setOpen(null)}
      />
    </>
  );
}

function NoNodes({ admin }: { admin: boolean }) {
  return (
    <Blank title="The cluster has no nodes yet">
      {admin
        ? "“Add a node” gives you the command to run on the first one."
        : "An administrator has to add the first one."}
    </Blank>
  );
}
