import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { me } from "@/api/session";
import { virtualClusters } from "@/api/virtualClusters";
import type { VirtualCluster } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { useLiveQueries, usePoll } from "@/live/live";
import { EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { NewVirtualClusterDialog } from "./NewVirtualClusterDialog";
import { VirtualClusterCard } from "./VirtualClusterCard";
import css from "./VirtualClustersPage.module.css";

export function VirtualClustersPage() {
  const { data: user } = useQuery(me);
  const list = useQuery({ ...virtualClusters, refetchInterval: usePoll() });
  useLiveQueries("cluster", "", [virtualClusters.queryKey], 2000);
  const navigate = useNavigate();
  const [creating, setCreating] = useState(false);
  const admin = user?.is_admin ?? false;

  return (
    <>
      <PageHeader
        title="Virtual clusters"
        note={list.data ? pluralize(list.data.length, "virtual cluster") : null}
      >
        <ExportButton list="virtual-clusters" />
        {admin ? (
          <Button
            variant="default"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => setCreating(true)}
          >
            New virtual cluster
          </Button>
        ) : null}
      </PageHeader>
      <QueryState query={list} what="list of virtual clusters" rows={6} height={90}>
        {(data) => (data.length === 0 ? <NoVirtualClusters admin={admin} /> : <Cards vcs={data} />)}
      </QueryState>
      <NewVirtualClusterDialog
        open={creating}
        onClose={() => setCreating(false)}
        onCreated={(name) =>
          void navigate({
            to: "/virtual-clusters/$name",
            params: { name },
            search: { tab: "settings" },
          })
        }
      />
    </>
  );
}

function Cards({ vcs }: { vcs: VirtualCluster[] }) {
  return (
    <ul className={css.cards}>
      {vcs.map((vc) => (
        <VirtualClusterCard key={vc.name} vc={vc} />
      ))}
    </ul>
  );
}

function NoVirtualClusters({ admin }: { admin: boolean }) {
  return (
    <EmptyState title={admin ? "No virtual clusters yet" : "You are in no virtual cluster yet"}>
      {admin
        ? "A virtual cluster is a team's share of the GPUs. Make one, give it GPUs, add its people."
        : "Ask an administrator to add you to your team's: jobs are submitted to a virtual cluster."}
    </EmptyState>
  );
}
