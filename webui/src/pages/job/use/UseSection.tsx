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
          <Fact name={`GPU utilisation (${count(asked.gpus, "GPU")})`}>
            <span className="num">{percent(use.gpu_utilization)}</span>
          </Fact>
          <Fact name="GPU memory peak">{size(use.gpu_memory_peak_mb)}</Fact>
        </>
      ) : null}
      <Fact name="CPU of a task">
        <span className="num">{percent(use.cpu_percent)}</span>{" "}
        <span className="dim">of {count(asked.cpus * 100, "%", "%")}</span>
      </Fact>
      <Fact name="Memory peak of a task">
        {size(use.memory_peak_mb)} <span className="dim">of {megabytes(asked.memory_mb)}</span>
      </Fact>
    </Facts>
  );
}

function size(mb: number | null): string {
  return mb === null ? "–" : megabytes(mb);
}
