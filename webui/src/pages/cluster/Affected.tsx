import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { cells } from "@/api/cells";
import type { ForecastJob, NodeForecast } from "@/api/types";
import { jobOf } from "@/format/others";
import { count } from "@/format/size";
import { typeWords } from "@/pages/cells/words";
import css from "./Affected.module.css";

/** Jobs on a node, and cells that virtual clusters do without while it is away. */
export function Affected({ forecast, title }: { forecast: NodeForecast; title: string }) {
  const { jobs, virtual_clusters: losers } = forecast;
  return (
    <section className={css.affected} aria-label="Who is affected">
      <h3>{title}</h3>
      {jobs.length > 0 ? (
        <ul className={css.list} tabIndex={0} aria-label="Jobs here">
          {jobs.map((job, at) => (
            <li key={job.id ?? at}>
              <JobWords job={job} />
            </li>
          ))}
        </ul>
      ) : null}
      {losers.length > 0 ? (
        <>
          <h3>Cells that could not be given meanwhile</h3>
          <ul className={css.list}>
            {losers.map(({ name, loses }) => (
              <li key={name}>
                <b>{name}</b>
                <Lost loses={loses} />
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </section>
  );
}

function JobWords({ job }: { job: ForecastJob }) {
  const size = `${count(job.tasks, "task")} here, ${count(job.gpus, "GPU")} in all`;
  if (!job.id) {
    return (
      <>
        <b>{jobOf(job.virtual_cluster)}</b>
        <span className="dim">{size}</span>
      </>
    );
  }
  return (
    <>
      <Link to="/jobs/$id" params={{ id: job.id }} className="link">
        <b>{job.name}</b>
      </Link>
      <span>
        {job.owner} <span className="dim">in {job.virtual_cluster}</span>
      </span>
      <span className="dim">{size}</span>
    </>
  );
}

function Lost({ loses }: { loses: Record<string, number> }) {
  const { data } = useQuery(cells);
  return (
    <span className={css.lost}>
      {Object.entries(loses).map(([type, number]) => (
        <span key={type}>
          {number} × {typeWords(data?.chains ?? [], type)}
        </span>
      ))}
    </span>
  );
}
