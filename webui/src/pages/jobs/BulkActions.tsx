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

const NONE: ReadonlySet<string> = new Set();

interface Props {
  jobs: JobSummary[];
  /** Chooses other jobs: none when it is done, and those that were refused. */
  onChoose: (ids: ReadonlySet<string>) => void;
}

/** What can be done with several jobs at a time. */
export function BulkActions({ jobs, onChoose }: Props) {
  const { data: user } = useQuery(me);
  const [tagging, setTagging] = useState(false);
  const tokens = useRepeatTokens();
  const stoppable = jobs.filter((job) => mayStop(job, user ?? null));
  const stopping = useChange(inOneRequest(stopJobs), "stopped", onChoose);
  const cloning = useChange(
    oneByOne((job) => tokens.send(job.id, (token) => clone(job.id, token))),
    "cloned",
    onChoose,
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
      <Button variant="subtle" color="gray" className={css.clear} onClick={() => onChoose(NONE)}>
        Clear the selection
      </Button>
      {tagging ? (
        <TagDialog jobs={jobs} onClose={() => setTagging(false)} onDone={() => onChoose(NONE)} />
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
  const settled = useRefresh();
  const change = inOneRequest((ids) => tagJobs(ids, added, removed));
  const tagging = useMutation({
    mutationFn: async () => refuse(jobs, await change(jobs)),
    onSuccess: () => {
      notifySuccess(`The tags of ${pluralize(jobs.length, "job")} changed`);
      onClose();
      onDone();
    },
    onSettled: settled,
  });
  return (
    <FormDialog
      open
      title={`Tags of ${pluralize(jobs.length, "job")}`}
      verb="Change"
      mutation={tagging}
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

interface Refused {
  id: string;
  message: string;
}

/** Changes jobs, and returns those that were refused. The others stay changed. */
type Change = (jobs: JobSummary[]) => Promise<Refused[]>;

function inOneRequest(act: (ids: string[]) => Promise<BulkResult[]>): Change {
  return async (jobs) => {
    const results = await act(jobs.map((job) => job.id));
    return results.filter(({ done }) => !done);
  };
}

const AT_A_TIME = 4;

function oneByOne(act: (job: JobSummary) => Promise<unknown>): Change {
  return async (jobs) => {
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
    return refused;
  };
}

/** Says that a change to several jobs is done, or of which it was refused and why: also when the
 * jobs have left the list meanwhile. Those that were refused stay chosen, to be tried again. */
function useChange(change: Change, done: string, onChoose: Props["onChoose"]) {
  const settled = useRefresh();
  return useMutation({
    mutationFn: change,
    onSuccess: (refused, jobs) => {
      onChoose(new Set(refused.map(({ id }) => id)));
      if (refused.length > 0) notifyError(refusal(jobs, refused));
      else notifySuccess(`${pluralize(jobs.length, "job")} ${done}`);
    },
    onError: (error) => notifyError(error),
    onSettled: settled,
  });
}

function useRefresh() {
  const queries = useQueryClient();
  return () => {
    for (const key of ["jobs", "job-count", "job"])
      void queries.invalidateQueries({ queryKey: [key] });
  };
}

function refuse(jobs: JobSummary[], refused: Refused[]): void {
  if (refused.length > 0) throw refusal(jobs, refused);
}

/** "2 of 3 were refused. two, three: It is not yours." */
function refusal(jobs: JobSummary[], refused: Refused[]): Error {
  const names = new Map(jobs.map(({ id, name }) => [id, name]));
  const reasons = new Set(refused.map(({ message }) => message));
  const parts = [...reasons].map((message) => {
    const those = refused.filter((one) => one.message === message);
    const some = those.slice(0, MOST_NAMES).map(({ id }) => names.get(id) ?? id);
    const more = those.length > MOST_NAMES ? ` and ${those.length - MOST_NAMES} more` : "";
    return `${some.join(", ")}${more}: ${message}`;
  });
  const summary = jobs.length > 1 ? [`${refused.length} of ${jobs.length} were refused.`] : [];
  return new Error([...summary, ...parts].join(" "));
}

const MOST_NAMES = 10;
