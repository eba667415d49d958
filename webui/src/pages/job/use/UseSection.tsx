import { useQuery } from "@tanstack/react-query";
import { jobUse } from "@/api/jobs";
import type { Job, JobUse } from "@/api/types";
import { count, megabytes } from "@/format/size";
import { Fact, Facts } from "@/ui/Facts";
import { Icon } from "@/ui/Icon";
import { isOver } from "../words";
import { hours, percent } from "./words";
import css from "./UseSection.module.css";

/** What a finished job made of what it asked for, and what to ask for next time. */
export function UseSection({ job }: { job: Job }) {
  const { data: use } = useQuery({ ...jobUse(job.id), enabled: isOver(job.state) });
  if (!use) return null;
  return (
    <section className={css.use} aria-label="What it used">
      <UseFacts use={use} />
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

function UseFacts({ use }: { use: JobUse }) {
  const { asked } = use;
  return (
    <Facts>
      {asked.gpus > 0 ? (
        <>
          <Fact name="GPU-hours held">
            <span className="num">{hours(use.gpu_hours)}</span>
          </Fact>
          {use.gpu_utilization === null ? null : (
            <Fact name={`GPU utilisation (${count(asked.gpus, "GPU")})`}>
              <span className="num">{percent(use.gpu_utilization)}</span>
            </Fact>
          )}
          <Peak name="GPU memory peak" mb={use.gpu_memory_peak_mb} />
        </>
      ) : null}
      {use.cpu_percent === null ? (
        <p className={css.short}>Too short to measure CPU and memory.</p>
      ) : (
        <Fact name="CPU of a task">
          <span className="num">{percent(use.cpu_percent)}</span>{" "}
          <span className="dim">of {count(asked.cpus * 100, "%", "%")}</span>
        </Fact>
      )}
      <Peak name="Memory peak of a task" mb={use.memory_peak_mb} of={asked.memory_mb} />
    </Facts>
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
    <Fact name={name}>
      {megabytes(mb)} {of ? <span className="dim">of {megabytes(of)}</span> : null}
    </Fact>
  );
}
