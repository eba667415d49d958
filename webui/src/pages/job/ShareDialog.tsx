import { ActionIcon, Button, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { errorMessage } from "@/api/errors";
import { jobShares, shareJob, type ShareKind, unshareJob } from "@/api/jobs";
import type { Job } from "@/api/types";
import { Dialog } from "@/ui/Dialog";
import { CopyableCode } from "@/ui/CopyableCode";
import { Icon } from "@/ui/Icon";
import { ReadNote } from "@/ui/ReadNote";
import { notifyError } from "@/ui/notify";
import css from "./ShareDialog.module.css";

const KINDS = [
  { value: "user", label: "User" },
  { value: "group", label: "Group" },
];

/** The link to a job, and the users and groups who may read it; its owner and administrators only. */
export function ShareDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const queries = useQueryClient();
  const { queryKey } = jobShares(job.id);
  const query = useQuery(jobShares(job.id));
  const { data } = query;
  const [kind, setKind] = useState<ShareKind>("user");
  const [name, setName] = useState("");
  const sharing = useMutation({
    mutationFn: () => shareJob(job.id, kind, name.trim()),
    onSuccess: async () => {
      setName("");
      await queries.invalidateQueries({ queryKey });
    },
  });
  const revoking = useMutation({
    mutationFn: (one: { kind: ShareKind; name: string }) => unshareJob(job.id, one.kind, one.name),
    onError: (error) => notifyError(error),
    onSettled: () => queries.invalidateQueries({ queryKey }),
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    sharing.mutate();
  }
  return (
    <Dialog opened onClose={onClose} title={`Share ${job.name}`}>
      <p className={css.about}>
        Those you share it with read its file, logs and metrics with this link. They cannot change
        or stop it.
      </p>
      <CopyableCode label="Link to the job" text={`${location.origin}/jobs/${job.id}`} />
      <form onSubmit={submit} className={css.form}>
        <Select
          aria-label="Share with a"
          data={KINDS}
          value={kind}
          allowDeselect={false}
          onChange={(value) => setKind(value === "group" ? "group" : "user")}
          w={96}
        />
        <TextInput
          aria-label={kind === "user" ? "User name" : "Name of the group"}
          placeholder={kind === "user" ? "User name" : "Name of the group"}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          className={css.name}
          data-autofocus
        />
        <Button type="submit" disabled={!name.trim()} loading={sharing.isPending}>
          Share
        </Button>
      </form>
      {sharing.error ? (
        <p className={css.error} role="alert">
          {errorMessage(sharing.error)}
        </p>
      ) : null}
      <ReadNote query={query} what="list of those it is shared with" />
      {data && data.shares.length > 0 ? (
        <ul className={css.list} aria-label="Shared with">
          {data.shares.map((one) => (
            <li key={`${one.kind} ${one.name}`}>
              <span>
                {one.name} {one.kind === "group" ? <span className="dim">group</span> : null}
              </span>
              <ActionIcon
                size="sm"
                aria-label={`Stop sharing with ${one.name}`}
                onClick={() => revoking.mutate(one)}
              >
                <Icon name="trash" size={13} />
              </ActionIcon>
            </li>
          ))}
        </ul>
      ) : null}
    </Dialog>
  );
}
