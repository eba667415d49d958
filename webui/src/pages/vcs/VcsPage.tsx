import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { me } from "@/api/session";
import { virtualClusters } from "@/api/tenancy";
import type { VirtualCluster } from "@/api/types";
import { count } from "@/format/size";
import { useLiveQueries, usePoll } from "@/live/live";
import { Blank, Failure } from "@/ui/Blank";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { NewVc } from "./NewVc";
import { VcCard } from "./VcCard";
import css from "./VcsPage.module.css";

export function VcsPage() {
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
        note={list.data ? count(list.data.length, "virtual cluster") : null}
      >
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
      {list.isPending ? <SkeletonRows rows={6} height={90} /> : null}
      {list.isError && !list.data ? (
        <Failure
          error={list.error}
          what="list of virtual clusters"
          retry={() => void list.refetch()}
        />
      ) : null}
      {list.data?.length === 0 ? <NoVcs admin={admin} /> : null}
      {list.data && list.data.length > 0 ? <Cards vcs={list.data} /> : null}
      <NewVc
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
        <VcCard key={vc.name} vc={vc} />
      ))}
    </ul>
  );
}

function NoVcs({ admin }: { admin: boolean }) {
  return (
    <Blank title={admin ? "No virtual clusters yet" : "You are in no virtual cluster yet"}>
      {admin
        ? "A virtual cluster is a team's share of the GPUs. Make one, give it GPUs, add its people."
        : "Ask an administrator to add you to your team's: jobs are submitted to a virtual cluster."}
    </Blank>
  );
}
