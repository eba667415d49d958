import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { attachTensorboard, jobApps } from "@/api/apps";
import type { Job } from "@/api/types";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { isUnread, unreadText } from "@/ui/ReadNote";
import { OpenAppButton } from "./OpenAppButton";

/** On the page of a running job: its apps, and TensorBoard to be started in it. */
export function JobApps({ job }: { job: Job }) {
  const query = useQuery({
    ...jobApps(job.id),
    refetchInterval: ({ state }) =>
      state.data?.some((app) => app.state === "starting") ? 2000 : false,
  });
  const [asking, setAsking] = useState(false);
  const apps = (query.data ?? []).filter((app) => app.type !== "shell");
  const board = apps.some((app) => app.type === "tensorboard");
  return (
    <>
      {isUnread(query) ? (
        <Button
          variant="default"
          leftSection={<Icon name="warning" size={14} />}
          title={unreadText(query, "list of its apps") ?? undefined}
          onClick={() => void query.refetch()}
        >
          Read its apps again
        </Button>
      ) : null}
      {apps.map((app) => (
        <OpenAppButton
          key={app.id}
          app={app}
          variant="default"
          label={app.state === "ready" ? `Open ${app.name}` : `${app.name} (${app.state})`}
        />
      ))}
      {job.may_exec && !board ? (
        <Button
          variant="default"
          leftSection={<Icon name="usage" size={14} />}
          onClick={() => setAsking(true)}
        >
          TensorBoard
        </Button>
      ) : null}
      {asking ? <TensorboardForm job={job} onClose={() => setAsking(false)} /> : null}
    </>
  );
}

function TensorboardForm({ job, onClose }: { job: Job; onClose: () => void }) {
  const queries = useQueryClient();
  const [folder, setFolder] = useState("/workspace/runs");
  const start = useMutation({
    mutationFn: () => attachTensorboard(job.id, folder),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: jobApps(job.id).queryKey });
      onClose();
    },
  });
  return (
    <FormDialog open title="Start TensorBoard" verb="Start" mutation={start} onClose={onClose}>
      <TextInput
        label="Folder with the event files"
        description="As the first task sees it. The job's image has to contain TensorBoard."
        required
        value={folder}
        onChange={(event) => setFolder(event.currentTarget.value)}
      />
    </FormDialog>
  );
}
