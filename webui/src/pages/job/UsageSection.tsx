import { useQuery } from "@tanstack/react-query";
import { jobUse } from "@/api/jobs";
import type { Job, JobUse } from "@/api/types";
import { usage } from "@/api/usage";
import { isFinished } from "@/features/jobs/permissions";
import { Totals } from "@/features/usage/Totals";
import { formatHours, formatMegabytes, formatPercent, pluralize } from "@/format/numbers";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { Icon } from "@/ui/Icon";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import css from "./UsageSection.module.css";

const REFRESH_MS = 60_000;

/** What the job cost so far, for those who may see the usage of its owner. */
export function CostSection({ job }: { job: Job }) {
  const running = !isFinished(job.state);
  const query = useQuery({
    ...usage({ by: "class", job: job.id, since: job.submitted_at.slice(0, 10) }),
    enabled: job.gpus > 0,
    refetchInterval: running ? REFRESH_MS : false,
  });
  const { data } = query;
  if (isUnread(query)) return <ReadNote query={query} what="cost of the job" />;
  if (!data || data.total.allocated_s === 0) return null;
  return (
    <section className={css.use} aria-label={running ? "Cost so far" : "Cost"}>
      <h2 className={css.title}>GPU-hours{running ? " so far" : ""}</h2>
      <ReadNote query={query} what="cost of the job" />
      <Totals sums={data.total} />
    </section>
  );
}

/** What a finished job made of what it asked for, and what to ask for next time. */
export function UsageSection({ job }: { job: Job }) {
  const query = useQuery({ ...jobUse(job.id), enabled: isFinished(job.state) });
  const { data: use } = query;
  if (isUnread(query)) return <ReadNote query={query} what="use of the job" />;
  if (!use) return null;
  return (
    <section className={css.use} aria-label="What it used">
      <UsageDetails use={use} />
      {use.advice.length > 0 ? (
        <ul className={css.advice}>
          {use.advice.map((each) => (
            <li key={each.code}>
              <Icon name="bolt" size={14} />
              {each.message}
            </li>
          ))}
        </ul>
      ) : null}
    </section>
  );
}

function UsageDetails({ use }: { use: JobUse }) {
  const { asked } = use;
  return (
    <DescriptionList>
      {asked.gpus > 0 ? (
        <>
          <DescriptionItem name="GPU-hours">
            <span className="num">{formatHours(use.gpu_hours)}</span>
          </DescriptionItem>
          {use.gpu_utilization === null ? null : (
            <DescriptionItem name={`GPU utilisation (${pluralize(asked.gpus, "GPU")})`}>
              <span className="num">{formatPercent(use.gpu_utilization)}</span>
            </DescriptionItem>
          )}
          <Peak name="Peak GPU memory" mb={use.gpu_memory_peak_mb} />
        </>
      ) : null}
      <DescriptionItem name="CPU per task">
        {use.cpu_percent === null ? (
          <span className={css.short}>too short to measure</span>
        ) : (
          <>
            <span className="num">{formatPercent(use.cpu_percent)}</span>{" "}
            <span className="dim">of {formatPercent(asked.cpus * 100)}</span>
          </>
        )}
      </DescriptionItem>
      <Peak name="Peak memory per task" mb={use.memory_peak_mb} of={asked.memory_mb} />
    </DescriptionList>
  );
}

interface PeakProps {
  name: string;
  mb: number | null;
  of?: number;
}

function Peak({ name, mb, of }: PeakProps) {
  if (mb === null) return null;
  return (
    <DescriptionItem name={name}>
      {formatMegabytes(mb)} {of ? <span className="dim">of {formatMegabytes(of)}</span> : null}
    </DescriptionItem>
  );
}
