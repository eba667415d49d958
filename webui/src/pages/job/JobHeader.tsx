import { Tooltip, ActionIcon } from "@mantine/core";
import type { Job } from "@/api/types";
import { JobBadges } from "@/pages/jobs/JobBadges";
import { JobsCrumb } from "@/pages/jobs/JobsCrumb";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { StateBadge } from "@/ui/StateBadge";
import { useStop } from "../jobs/useStop";
import { JobFacts } from "./JobFacts";
import { Story } from "./Story";
import { canStop } from "./words";
import css from "./JobHeader.module.css";

export function JobHeader({ job }: { job: Job }) {
  const stopping = useStop(job.id);
  return (
    <>
      <PageHeader
        above={<JobsCrumb />}
        title={job.name}
        note={
          <span className={css.badges}>
            <StateBadge state={job.state} large />
            <JobBadges job={job} />
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
        <LinkButton
          to="/jobs/new"
          search={{ from: job.id }}
          variant="default"
          leftSection={<Icon name="clone" size={14} />}
        >
          Clone
        </LinkButton>
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
        <Story job={job} />
        <JobFacts job={job} />
      </div>
    </>
  );
}
