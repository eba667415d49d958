import { Loader } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { app as appQuery, entrance } from "@/api/apps";
import { errorMessage } from "@/api/errors";
import type { App } from "@/api/types";
import { stateText } from "@/features/apps/labels";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";

/** Takes this browser to an app's own origin once it answers. With `state` it comes from there and
 *  needs a login. */
export function OpenAppPage() {
  const { id } = useParams({ from: "/shell/apps/$id" });
  const { state } = useSearch({ from: "/shell/apps/$id" });
  const found = useQuery({
    ...appQuery(id),
    refetchInterval: ({ state: query }) =>
      query.data && ["ready", "ended"].includes(query.data.state) ? false : 1500,
  });
  if (found.isPending) return <SkeletonRows rows={4} />;
  if (!found.data) {
    return (
      <ErrorState
        error={found.error}
        what="app"
        retry={() => void found.refetch()}
        way={
          <LinkButton to="/apps" variant="default">
            Go to the notebooks
          </LinkButton>
        }
        page
      />
    );
  }
  return <Entrance key={`${id} ${state}`} app={found.data} state={state} />;
}

function Entrance({ app, state }: { app: App; state: string | undefined }) {
  const [problem, setProblem] = useState("");
  const left = useRef(false);
  const ready = app.state === "ready" && app.url !== null;
  useEffect(() => {
    if (!ready || !app.url || left.current) return;
    left.current = true;
    const address = state ? entrance(app.id, state) : Promise.resolve(`${app.url}/`);
    address.then(
      (url) => window.location.replace(url),
      (error: unknown) => setProblem(errorMessage(error)),
    );
  }, [app.id, app.url, ready, state]);
  return (
    <>
      <PageHeader title={app.name} note={app.job_name} />
      <EmptyState title={problem ? "It cannot be opened" : titleOf(app)}>
        <span role="status">{problem || textOf(app)}</span>
        <br />
        {ready && !problem ? <Loader size="sm" mt="md" /> : null}
        <LinkButton
          to="/jobs/$id"
          params={{ id: app.job_id }}
          search={{ tab: app.type === "shell" ? "terminal" : "logs" }}
          variant="default"
          mt="md"
        >
          {app.type === "shell" ? "Open the terminal" : "Logs of its job"}
        </LinkButton>
      </EmptyState>
    </>
  );
}

function titleOf(app: App): string {
  if (app.state === "ended") return "Its job has ended";
  return app.state === "ready" ? "Opening it" : `It is ${app.state}`;
}

function textOf(app: App): string {
  if (app.state === "ready" && app.type === "shell") return "A shell is on the page of its job.";
  if (app.state === "ready" && !app.url) {
    return "An administrator has to set SKEP_APPS_URL before apps can be opened in a browser.";
  }
  return app.state === "ready" ? "You are taken to its own address." : stateText(app);
}
