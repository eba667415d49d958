import { Button, Progress, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import {
  cancelImageSave,
  imageSaves,
  type ImageSave,
  isCancelled,
  isOpen,
  saveImage,
} from "@/api/imageSaves";
import type { Job, Task } from "@/api/types";
import { taskName } from "@/format/names";
import { formatBytes } from "@/format/numbers";
import { usePoll } from "@/live/live";
import { CopyButton } from "@/ui/CopyButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import { notifyError } from "@/ui/notify";
import { RelativeTime } from "@/ui/Time";
import css from "./SaveImage.module.css";

/** Saves the container of a running task as an image. */
export function SaveImageButton({ job, task }: { job: Job; task: Task }) {
  const queries = useQueryClient();
  const [open, setOpen] = useState(false);
  const [reference, setReference] = useState("");
  const saving = useMutation({
    mutationFn: () => saveImage(job.id, task.rank, reference.trim()),
    onSuccess: async () => {
      setOpen(false);
      await queries.invalidateQueries({ queryKey: imageSaves(job.id).queryKey });
    },
  });
  return (
    <>
      <Button
        variant="default"
        leftSection={<Icon name="image" size={14} />}
        onClick={() => {
          saving.reset();
          setOpen(true);
        }}
      >
        Save as image
      </Button>
      <FormDialog
        open={open}
        title={`Save ${taskName(task)} as an image`}
        verb="Save"
        mutation={saving}
        onClose={() => setOpen(false)}
      >
        <TextInput
          label="Image"
          description="Name and tag in a registry that your credential may push to."
          placeholder="registry.example.org/team/torch:mine"
          value={reference}
          onChange={(event) => setReference(event.currentTarget.value)}
          required
          data-autofocus
        />
        <p className={css.about}>
          Saved is what the task changed in its container, on top of its image. Storages, scratch,
          secrets and the variables of the job are not. The task goes on meanwhile: what it writes
          at that moment may be saved in part.
        </p>
      </FormDialog>
    </>
  );
}

/** The saves of one task, with how far they are; nothing where there is none. */
export function ImageSaveList({ job, task }: { job: Job; task: Task }) {
  const poll = usePoll(2000);
  const query = useQuery({
    ...imageSaves(job.id),
    enabled: job.may_exec,
    refetchInterval: ({ state }) => (state.data?.some(isOpen) ? poll : false),
  });
  const mine = query.data?.filter((save) => save.task === taskName(task)) ?? [];
  if (mine.length === 0 && !isUnread(query)) return null;
  return (
    <section aria-label="Saved as images">
      <h3 className={css.title}>Saved as images</h3>
      <ReadNote query={query} what="list of its saved images" />
      <ul className={css.saves}>
        {mine.map((save) => (
          <SaveRow key={save.id} job={job} save={save} />
        ))}
      </ul>
    </section>
  );
}

function SaveRow({ job, save }: { job: Job; save: ImageSave }) {
  return (
    <li>
      <span className={css.name}>
        {save.reference} <CopyButton text={save.reference} label="Copy the name of the image" />
        {isOpen(save) ? <CancelButton job={job} save={save} /> : null}
      </span>
      <span className={css.note}>
        {/* Without the percents, which would be announced one by one. */}
        <span role="status">{noteOf(save)}</span>
        {save.state === "PUSHING" ? ` ${save.percent} %` : null}
        {save.ended_at ? (
          <>
            {" "}
            <RelativeTime at={save.ended_at} />
          </>
        ) : null}
      </span>
      {save.state === "PUSHING" ? (
        <Progress value={save.percent} size="sm" aria-label={`${save.percent} % pushed`} />
      ) : null}
      {save.state === "FAILED" ? (
        <p className={isCancelled(save) ? css.note : css.error}>{save.message}</p>
      ) : null}
    </li>
  );
}

function CancelButton({ job, save }: { job: Job; save: ImageSave }) {
  const queries = useQueryClient();
  const cancelling = useMutation({
    mutationFn: () => cancelImageSave(save.id),
    onError: (error) => notifyError(error, "It was not cancelled"),
    onSettled: () => queries.invalidateQueries({ queryKey: imageSaves(job.id).queryKey }),
  });
  return (
    <Button
      className={css.cancel}
      variant="default"
      size="compact-xs"
      loading={cancelling.isPending}
      aria-label={`Cancel saving ${save.reference}`}
      onClick={() => cancelling.mutate()}
    >
      Cancel
    </Button>
  );
}

function noteOf(save: ImageSave): string {
  switch (save.state) {
    case "WAITING":
      return "Waits for its node";
    case "SAVING":
      return "The node reads the container";
    case "PUSHING":
      return "Pushing";
    case "DONE":
      return save.size ? `Saved ${formatBytes(save.size)} of changes` : "Saved";
    case "FAILED":
      return isCancelled(save) ? "Cancelled" : "Not saved";
  }
}
