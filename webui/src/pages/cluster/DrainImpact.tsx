import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { cells } from "@/api/cells";
import type { ForecastJob, NodeForecast } from "@/api/types";
import { cellTypeLabel } from "@/features/cells/levels";
import { hiddenJobLabel } from "@/format/names";
import { pluralize } from "@/format/numbers";
import css from "./DrainImpact.module.css";

/** Jobs on a node, and cells that virtual clusters do without while it is away. */
export function DrainImpact({ forecast, title }: { forecast: NodeForecast; title: string }) {
  const { jobs, virtual_clusters: losers } = forecast;
  return (
    <section className={css.affected} aria-label="Who is affected">
      <h3>{title}</h3>
      {jobs.length > 0 ? (
        <ul className={css.list} tabIndex={0} aria-label="Jobs here">
          {jobs.map((job, at) => (
            <li key={job.id ?? at}>
              <JobItem job={job} />
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
                <LostCells loses={loses} />
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </section>
  );
}

function JobItem({ job }: { job: ForecastJob }) {
  const size = `${pluralize(job.tasks, "task")} here, ${pluralize(job.gpus, "GPU")} in all`;
  if (!job.id) {
    return (
      <>
        <b>{hiddenJobLabel(job.virtual_cluster)}</b>
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

function LostCells({ loses }: { loses: Record<string, number> }) {
  const { data } = useQuery(cells);
  return (
    <span className={css.lost}>
      {Object.entries(loses).map(([type, number]) => (
        <span key={type}>
          {number} × {cellTypeLabel(data?.chains ?? [], type)}
        </span>
      ))}
    </span>
  );
}
