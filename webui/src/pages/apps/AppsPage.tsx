import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { apps } from "@/api/apps";
import { me } from "@/api/session";
import { AppTable } from "@/features/apps/AppTable";
import { NewAppForm } from "@/features/apps/NewAppForm";
import { maySubmit } from "@/features/jobs/NoVirtualCluster";
import { useLiveQueries, usePoll } from "@/live/live";
import { EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";

export function AppsPage() {
  const poll = usePoll(3000);
  const list = useQuery({
    ...apps,
    refetchInterval: ({ state }) =>
      state.data?.some((app) => app.state !== "ready") ? 2000 : poll,
  });
  useLiveQueries("jobs", "", [["apps"]], 3000);
  const { data: user } = useQuery(me);
  const writes = !user || maySubmit(user);
  const [creating, setCreating] = useState(false);
  return (
    <>
      <PageHeader title="Notebooks" note="JupyterLab, VS Code and other apps in jobs">
        <ExportButton list="apps" />
        {writes ? (
          <Button leftSection={<Icon name="plus" size={14} />} onClick={() => setCreating(true)}>
            New notebook
          </Button>
        ) : null}
      </PageHeader>
      <QueryState query={list} what="list of notebooks">
        {(data) =>
          data.length === 0 ? (
            <EmptyState title="No notebooks yet">
              Start one here, or with <code>skep notebook</code>. Apps that job files declare are
              listed, too.
            </EmptyState>
          ) : (
            <AppTable rows={data} />
          )
        }
      </QueryState>
      {creating ? <NewAppForm onClose={() => setCreating(false)} /> : null}
    </>
  );
}
