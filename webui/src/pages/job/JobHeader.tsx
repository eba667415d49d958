import { Tooltip, ActionIcon } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { me } from "@/api/session";
import type { Job } from "@/api/types";
import { JobBadges } from "@/pages/jobs/JobBadges";
import { JobsCrumb } from "@/pages/jobs/JobsCrumb";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { StateBadge } from "@/ui/StateBadge";
import { useStop } from "../jobs/useStop";
import { BadGpus } from "./BadGpus";
import { CloneMenu } from "./CloneMenu";
import { FailurePanel } from "./failure/FailurePanel";
import { toldByPanel } from "./failure/words";
import { JobFacts } from "./JobFacts";
import type { Tab } from "./search";
import { Story } from "./Story";
import { TagEditor } from "./tags/TagEditor";
import { UseSection } from "./use/UseSection";
import { canStop } from "./words";
import css from "./JobHeader.module.css";

export function JobHeader({ job, tab }: { job: Job; tab: Tab }) {
  const stopping = useStop(job.id);
  const { data: user } = useQuery(me);
  return (
    <>
      <PageHeader
        above={<JobsCrumb />}
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
        <CloneMenu job={job} mine={job.owner === user?.username} />
        {job.may_stop && canStop(job.state) ? (
          <ConfirmButton
            question={`Stop ${job.name}?`}
            explanation="Its containers are told to end and are killed after their grace time. A stopped job cannot go on; its logs stay."
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
        <BadGpus job={job} />
        {toldByPanel(job) ? null : <Story job={job} />}
        <JobFacts job={job} />
        {tab === "tasks" || tab === "metrics" ? <UseSection job={job} /> : null}
      </div>
    </>
  );
}
