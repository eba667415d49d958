import { Checkbox } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { apps, shareApp } from "@/api/apps";
import type { App } from "@/api/types";
import { useStopJob } from "@/features/jobs/useStopJob";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import { PageTable } from "@/ui/table/PageTable";
import type { Column } from "@/ui/table/columns";
import { OpenAppButton } from "./OpenAppButton";
import { stateText, TYPES } from "./labels";
import css from "./apps.module.css";

export function AppTable({ rows }: { rows: App[] }) {
  return (
    <PageTable
      filterLabel="Filter notebooks"
      label="Notebooks and other apps"
      columns={COLUMNS}
      rows={rows}
      rowId={(app) => app.id}
      minWidth={900}
    />
  );
}

const COLUMNS: Column<App>[] = [
  {
    id: "job",
    header: "Job",
    width: "minmax(150px, 1.3fr)",
    cell: (app) => (
      <Link to="/jobs/$id" params={{ id: app.job_id }}>
        <b>{app.job_name}</b>
      </Link>
    ),
    sortValue: (app) => app.job_name,
  },
  {
    id: "type",
    header: "App",
    width: "minmax(110px, 0.8fr)",
    cell: (app) => TYPES[app.type],
    sortValue: (app) => TYPES[app.type],
  },
  {
    id: "state",
    header: "State",
    width: "minmax(160px, 1.6fr)",
    cell: (app) => (
      <span title={stateText(app)} className={css.state} data-state={app.state}>
        {app.state}
        {app.state === "starting" && app.problem ? (
          <span className="dim">: {app.problem}</span>
        ) : null}
      </span>
    ),
    sortValue: (app) => app.state,
  },
  {
    id: "gpus",
    header: "GPUs",
    width: "64px",
    align: "end",
    cell: (app) => app.gpus,
    sortValue: (app) => app.gpus,
  },
  {
    id: "owner",
    header: "Owner",
    width: "minmax(90px, 0.8fr)",
    cell: (app) => app.owner,
    sortValue: (app) => app.owner,
  },
  {
    id: "used",
    header: "Last used",
    width: "minmax(110px, 0.8fr)",
    optional: true,
    cell: (app) =>
      app.active_at ? <RelativeTime at={app.active_at} /> : <span className="dim">not yet</span>,
    sortValue: (app) => app.active_at,
  },
  {
    id: "shared",
    header: "Shared",
    width: "76px",
    cell: (app) => <Shared app={app} />,
  },
  {
    id: "actions",
    header: "Open or stop",
    hiddenHeader: true,
    width: "170px",
    align: "end",
    sticky: true,
    cell: (app) => <Actions app={app} />,
  },
];

function Shared({ app }: { app: App }) {
  const queries = useQueryClient();
  const sharing = useMutation({
    mutationFn: (shared: boolean) => shareApp(app.id, shared),
    onSuccess: () => queries.invalidateQueries({ queryKey: apps.queryKey }),
    onError: (error) => notifyError(error, "Nothing was changed"),
  });
  return (
    <Checkbox
      size="xs"
      checked={app.shared}
      disabled={!app.may_share || sharing.isPending}
      aria-label={`Share ${app.job_name} with ${app.virtual_cluster}`}
      title={`Who may submit to ${app.virtual_cluster} opens it, with the rights of the job`}
      onChange={(event) => sharing.mutate(event.currentTarget.checked)}
    />
  );
}

function Actions({ app }: { app: App }) {
  const queries = useQueryClient();
  const stopping = useStopJob(app.job_id);
  const stop = () =>
    stopping.mutate(undefined, {
      onSuccess: () => void queries.invalidateQueries({ queryKey: apps.queryKey }),
    });
  return (
    <span className={css.actions}>
      <OpenAppButton app={app} size="compact-sm" disabled={app.state === "ended"} />
      {app.may_stop && app.state !== "ended" ? (
        <ConfirmButton
          size="compact-sm"
          question={`Stop ${app.job_name}?`}
          explanation="The whole job ends, with all that runs in it. Files outside of its storages are lost."
          verb="Stop the job"
          busy={stopping.isPending}
          onConfirm={stop}
        >
          Stop
        </ConfirmButton>
      ) : null}
    </span>
  );
}
