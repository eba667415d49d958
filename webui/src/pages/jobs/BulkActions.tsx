import { Button, MultiSelect, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { errorMessage } from "@/api/errors";
import { type BulkResult, clone, stopJobs, tagJobs } from "@/api/jobs";
import { useRepeatTokens } from "@/api/repeating";
import { me } from "@/api/session";
import { MOST_RUNS } from "@/api/userMetrics";
import type { JobSummary } from "@/api/types";
import { mayStop } from "@/features/jobs/permissions";
import { pluralize } from "@/format/numbers";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { FormDialog } from "@/ui/FormDialog";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { notifyError, notifySuccess } from "@/ui/notify";
import css from "./JobsPage.module.css";

/** What can be done with several jobs at a time. */
export function BulkActions({ jobs, onClear }: { jobs: JobSummary[]; onClear: () => void }) {
  const { data: user } = useQuery(me);
  const [tagging, setTagging] = useState(false);
  const tokens = useRepeatTokens();
  const stoppable = jobs.filter((job) => mayStop(job, user ?? null));
  const stopping = useDone(useBulk(stopJobs), "stopped", onClear);
  const cloning = useDone(
    useMutationOfEach((job) => tokens.send(job.id, (token) => clone(job.id, token))),
    "cloned",
    onClear,
  );
  return (
    <div className={css.bulk} role="region" aria-label="Selected jobs">
      <b>{pluralize(jobs.length, "job")} selected</b>
      <ConfirmButton
        question={`Stop ${pluralize(stoppable.length, "job")}?`}
        explanation={stopExplanation(jobs.length, stoppable.length)}
        verb={`Stop ${pluralize(stoppable.length, "job")}`}
        disabled={stoppable.length === 0}
        busy={stopping.isPending}
        onConfirm={() => stopping.mutate(stoppable)}
        leftSection={<Icon name="stop" size={14} />}
      >
        Stop
      </ConfirmButton>
      <Button
        variant="default"
        leftSection={<Icon name="tag" size={14} />}
        onClick={() => setTagging(true)}
      >
        Tags
      </Button>
      <ConfirmButton
        question={`Clone ${pluralize(jobs.length, "job")}?`}
        explanation="Each is submitted once more as it was, with its secrets and working files, under the next free name."
        verb={`Clone ${pluralize(jobs.length, "job")}`}
        busy={cloning.isPending}
        onConfirm={() => cloning.mutate(jobs)}
        leftSection={<Icon name="clone" size={14} />}
      >
        Clone
      </ConfirmButton>
      {jobs.length > 1 && jobs.length <= MOST_RUNS ? (
        <LinkButton
          to="/jobs/compare"
          search={{ jobs: jobs.map((job) => job.id).join(",") }}
          variant="default"
          leftSection={<Icon name="usage" size={14} />}
        >
          Compare
        </LinkButton>
      ) : null}
      <Button variant="subtle" color="gray" className={css.clear} onClick={onClear}>
        Clear the selection
      </Button>
      {tagging ? (
        <TagDialog jobs={jobs} onClose={() => setTagging(false)} onDone={onClear} />
      ) : null}
    </div>
  );
}

function stopExplanation(selected: number, stoppable: number): string {
  const explanation =
    "Their containers receive SIGTERM and are killed after their grace period. A stopped job cannot be resumed; its logs are kept.";
  const rest = selected - stoppable;
  if (rest === 0) return explanation;
  return `${explanation} ${pluralize(rest, "selected job")} ${rest === 1 ? "is" : "are"} over already, or not yours to stop.`;
}

interface TagDialogProps {
  jobs: JobSummary[];
  onClose: () => void;
  onDone: () => void;
}

function TagDialog({ jobs, onClose, onDone }: TagDialogProps) {
  const [text, setText] = useState("");
  const [removed, setRemoved] = useState<string[]>([]);
  const added = text.split(/[,\s]+/).filter(Boolean);
  const known = [...new Set(jobs.flatMap((job) => job.tags))].sort();
  const tagging = useBulk((ids) => tagJobs(ids, added, removed));
  const tag = () =>
    tagging.mutate(jobs, {
      onSuccess: () => {
        notifySuccess(`The tags of ${pluralize(jobs.length, "job")} changed`);
        onClose();
        onDone();
      },
    });
  return (
    <FormDialog
      open
      title={`Tags of ${pluralize(jobs.length, "job")}`}
      verb="Change"
      mutation={{ ...tagging, mutate: tag }}
      onClose={onClose}
    >
      <TextInput
        label="Tags to add"
        description="Separated by spaces; tags that a job has stay"
        required={removed.length === 0}
        withAsterisk={false}
        data-autofocus
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      {known.length > 0 ? (
        <MultiSelect
          label="Tags to remove"
          data={known}
          value={removed}
          onChange={setRemoved}
          clearable
        />
      ) : null}
    </FormDialog>
  );
}

/** Says that a change to several jobs is done, or why it was refused. */
function useDone(mutation: BulkMutation, done: string, onDone: () => void) {
  const mutate = (jobs: JobSummary[]) =>
    mutation.mutate(jobs, {
      onSuccess: () => {
        notifySuccess(`${pluralize(jobs.length, "job")} ${done}`);
        onDone();
      },
      onError: (error) => notifyError(error),
    });
  return { isPending: mutation.isPending, mutate };
}

type BulkMutation = ReturnType<typeof useMutation<void, Error, JobSummary[]>>;

/** One request for several jobs. Those that work stay done when another is refused. */
function useBulk(act: (ids: string[]) => Promise<BulkResult[]>): BulkMutation {
  return useChange(async (jobs) => {
    const results = await act(jobs.map((job) => job.id));
    refuse(
      jobs,
      results.filter((one) => !one.done).map(({ id, message }) => ({ id, message })),
    );
  });
}

const AT_A_TIME = 4;

/** The same request for each of some jobs. */
function useMutationOfEach(act: (job: JobSummary) => Promise<unknown>): BulkMutation {
  return useChange(async (jobs) => {
    const refused: Refused[] = [];
    for (let at = 0; at < jobs.length; at += AT_A_TIME) {
      const some = jobs.slice(at, at + AT_A_TIME);
      const ends = await Promise.allSettled(some.map(act));
      ends.forEach((end, index) => {
        const job = some[index];
        if (end.status === "rejected" && job)
          refused.push({ id: job.id, message: errorMessage(end.reason) });
      });
    }
    refuse(jobs, refused);
  });
}

function useChange(change: (jobs: JobSummary[]) => Promise<void>): BulkMutation {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void queries.invalidateQueries({ queryKey: ["job-count"] });
      void queries.invalidateQueries({ queryKey: ["job"] });
    },
  });
}

interface Refused {
  id: string;
  message: string;
}

function refuse(jobs: JobSummary[], refused: Refused[]): void {
  const [first] = refused;
  if (!first) return;
  const name = jobs.find((job) => job.id === first.id)?.name ?? first.id;
  const rest = jobs.length > 1 ? `${refused.length} of ${jobs.length} were refused. ` : "";
  throw new Error(`${rest}${name}: ${first.message}`);
}
