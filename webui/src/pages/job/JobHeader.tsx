import { ActionIcon, Button, Menu, Tooltip } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { clone, tasks } from "@/api/jobs";
import { useRepeatTokens } from "@/api/repeating";
import type { Job } from "@/api/types";
import { JobApps } from "@/features/apps/JobApps";
import { JobBadges } from "@/features/jobs/JobBadges";
import { JobsBreadcrumb } from "@/features/jobs/JobsBreadcrumb";
import { WaitReason } from "@/features/jobs/WaitReason";
import { useStopJob } from "@/features/jobs/useStopJob";
import { NewDatasetForm } from "@/features/datasets/NewDatasetForm";
import { canStop, isFinished } from "@/features/jobs/permissions";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { StateBadge } from "@/ui/StateBadge";
import { notifyError, notifySuccess } from "@/ui/notify";
import { JobDetails } from "./JobDetails";
import { ShareDialog } from "./ShareDialog";
import { MoveButton, MoveDialogButton } from "./actions/Move";
import { SaveAsTemplate } from "./actions/SaveAsTemplate";
import { WaitActions } from "./actions/WaitActions";
import { TagEditor } from "./TagEditor";
import { CostSection, UsageSection } from "./UsageSection";
import { FailurePanel } from "./failure/FailurePanel";
import { isShownByFailurePanel } from "./failure/labels";
import { jobPullText, jobStatusText } from "./labels";
import type { Tab } from "./searchParams";
import css from "./JobHeader.module.css";

/** Of a job file that mounts what its outputs may lie in. */
const STORAGES = /^\s*("?storages"?:|- plugin: "?teamwise_storage)/m;

export function JobHeader({ job, tab }: { job: Job; tab: Tab }) {
  const stopping = useStopJob(job.id);
  const [sharing, setSharing] = useState(false);
  const [making, setMaking] = useState(false);
  return (
    <>
      <PageHeader
        above={<JobsBreadcrumb />}
        title={job.name}
        note={
          <span className={css.badges}>
            <StateBadge state={job.state} large />
            <JobBadges job={job} />
            <TagEditor job={job} />
          </span>
        }
      >
        <Tooltip label="Download the job file">
          <ActionIcon
            component="a"
            aria-label="Download the job file"
            variant="default"
            size={30}
            href={`data:application/yaml;charset=utf-8,${encodeURIComponent(job.spec_text)}`}
            download={`${job.name}.yaml`}
          >
            <Icon name="download" />
          </ActionIcon>
        </Tooltip>
        {job.may_share ? (
          <Button variant="default" onClick={() => setSharing(true)}>
            Share
          </Button>
        ) : null}
        {sharing ? <ShareDialog job={job} onClose={() => setSharing(false)} /> : null}
        {job.may_clone && job.state === "SUCCEEDED" && STORAGES.test(job.spec_text) ? (
          <Button variant="default" onClick={() => setMaking(true)}>
            Make a dataset
          </Button>
        ) : null}
        {making ? <NewDatasetForm job={job} onClose={() => setMaking(false)} /> : null}
        <MoveDialogButton job={job} />
        <CloneMenu job={job} mine={job.may_clone} />
        {job.state === "RUNNING" ? <JobApps job={job} /> : null}
        {job.may_stop && canStop(job.state) ? (
          <ConfirmButton
            question={`Stop ${job.name}?`}
            explanation="Its containers receive SIGTERM and are killed after their grace period. A stopped job cannot be resumed; its logs are kept."
            verb="Stop the job"
            busy={stopping.isPending}
            onConfirm={() => stopping.mutate()}
            leftSection={<Icon name="stop" size={14} />}
          >
            Stop
          </ConfirmButton>
        ) : null}
      </PageHeader>
      <div className={css.about}>
        {/* The newest of the attempts says it itself. */}
        {tab === "attempts" ? null : <FailurePanel job={job} brief={tab !== "tasks"} />}
        <FailedGpus job={job} />
        {isShownByFailurePanel(job) ? null : <JobStatus job={job} />}
        <JobDetails job={job} />
        {tab === "tasks" || tab === "metrics" ? <UsageSection job={job} /> : null}
        {tab === "metrics" || (tab === "tasks" && !isFinished(job.state)) ? (
          <CostSection job={job} />
        ) : null}
      </div>
    </>
  );
}

/** Why it waits or how it ended, in one sentence with its numbers. */
function JobStatus({ job }: { job: Job }) {
  return (
    <div className={css.status} data-state={toneOf(job)}>
      {/* Announced when it changes; not the numbers and times below, which change all the time. */}
      <div className={css.sentence} role="status">
        {job.wait_reason && (job.state === "WAITING" || job.preempting) ? null : (
          <p>{jobStatusText(job)}</p>
        )}
        {job.wait_reason ? <p>{job.wait_reason.message}</p> : null}
      </div>
      {job.wait_reason ? (
        <WaitReason
          reason={job.wait_reason}
          vc={job.virtual_cluster}
          interval={spanOf(job.expected_start_interval)}
          withoutSentence
        >
          <WaitActions job={job} />
        </WaitReason>
      ) : null}
      {!job.wait_reason && job.state === "WAITING" && job.placed_at ? (
        <PullStatus job={job} />
      ) : null}
      {job.downgraded ? (
        <p className={css.more}>
          <b>Runs as opportunistic now.</b> {job.downgraded.message}
        </p>
      ) : null}
    </div>
  );
}

/** How far the images of a job that is placed are. */
function PullStatus({ job }: { job: Job }) {
  const { data } = useQuery(tasks(job.id));
  const text = data ? jobPullText(data) : null;
  return text ? <p className={css.more}>{text}</p> : null;
}

/** A running job that is preempted, lost its guarantee or waits for tasks is marked as such. */
function toneOf({ state, wait_reason, downgraded, preempting }: Job): string {
  if (state !== "RUNNING") return state;
  if (preempting || downgraded) return "STOPPING";
  return wait_reason ? "WAITING" : state;
}

/** GPUs of a running job that failed: it may hang or compute nonsense although it still runs. */
function FailedGpus({ job }: { job: Job }) {
  if (job.bad_gpus.length === 0) return null;
  return (
    <ul className={css.list} role="alert" aria-label="GPUs of this job that failed">
      {job.bad_gpus.map((gpu) => (
        <li key={gpu.uuid}>
          <Icon name="warning" size={14} /> GPU {gpu.index} of{" "}
          <Link to="/cluster" className="link">
            {gpu.node}
          </Link>{" "}
          ({gpu.task}) failed: {gpu.problem || "it is no longer there"}{" "}
          <MoveButton job={job} node={gpu.node} />
        </li>
      ))}
    </ul>
  );
}

/** Runs a job once more: as it is, with the secrets and files it was submitted with, or changed
 * in the editor. */
function CloneMenu({ job, mine }: { job: Job; mine: boolean }) {
  const [saving, setSaving] = useState(false);
  const cloning = useClone(job);
  return (
    <Menu position="bottom-end" width={300}>
      <Menu.Target>
        <Button
          variant="default"
          leftSection={<Icon name="clone" size={14} />}
          rightSection={<Icon name="down" size={12} />}
          loading={cloning.isPending}
        >
          Clone
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {mine ? (
          <Menu.Item onClick={() => cloning.mutate()}>
            Run it again as it is
            <br />
            <span className="dim">With its secrets and working files, under a new name.</span>
          </Menu.Item>
        ) : null}
        <Menu.Item
          renderRoot={(props) => <Link to="/jobs/new" search={{ from: job.id }} {...props} />}
        >
          Edit and submit
          <br />
          <span className="dim">Opens its job file; secrets have to be typed again.</span>
        </Menu.Item>
        {mine ? (
          <Menu.Item onClick={() => setSaving(true)}>
            Save as template
            <br />
            <span className="dim">For others to start from; without its secrets.</span>
          </Menu.Item>
        ) : null}
      </Menu.Dropdown>
      {saving ? <SaveAsTemplate job={job} onClose={() => setSaving(false)} /> : null}
    </Menu>
  );
}

function useClone(job: Job) {
  const queries = useQueryClient();
  const tokens = useRepeatTokens();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: () => tokens.send(job.id, (token) => clone(job.id, token)),
    onSuccess: async (copy) => {
      queries.setQueryData(["job", copy.id], copy);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      notifySuccess(`${copy.name} is submitted`);
      await navigate({ to: "/jobs/$id", params: { id: copy.id } });
    },
    onError: (error) => notifyError(error, "The job was not cloned"),
  });
}

function spanOf(interval: Job["expected_start_interval"]): [number, number] | undefined {
  return interval ? [Date.parse(interval.low) / 1000, Date.parse(interval.high) / 1000] : undefined;
}
