import { Link } from "@tanstack/react-router";
import type { ChangedJob, PolicyForecast as Forecast } from "@/api/simulations";
import { pluralize } from "@/format/numbers";
import { formatDateTime, formatDuration } from "@/format/time";
import { policyLabel } from "./labels";
import css from "./ForecastAnswer.module.css";

/** The present queue of a virtual cluster under its policy and another one. */
export function ForecastAnswer({ forecast }: { forecast: Forecast }) {
  const { running, waiting, recent } = forecast;
  return (
    <div className={css.answer}>
      <table>
        <caption>Forecast from {formatDateTime(isoOf(forecast.at))}</caption>
        <thead>
          <tr>
            <th scope="col">Policy</th>
            <th scope="col">Mean wait</th>
            <th scope="col">95%</th>
            <th scope="col">Last job ends</th>
          </tr>
        </thead>
        <tbody>
          {forecast.sides.map((side, index) => (
            <tr key={`${index} ${side.policy}`}>
              <th scope="row">
                {policyLabel(side.policy)} {index === 0 ? "(now)" : ""}
              </th>
              <td className="num">{formatDuration(side.avg_wait_s)}</td>
              <td className="num">{formatDuration(side.p95_wait_s)}</td>
              <td className="num">{formatDateTime(isoOf(side.last_end_at))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Changed title="End earlier" count={forecast.gaining} jobs={forecast.gains} />
      <Changed title="End later" count={forecast.losing} jobs={forecast.losses} />
      {forecast.gaining + forecast.losing === 0 ? (
        <p>No job that waits or runs ends at another time.</p>
      ) : null}
      <p className={css.note}>
        Of {pluralize(running, "running job")} and {waiting.toLocaleString("en")} that wait
        {recent > 0 ? `; ${pluralize(recent, "job")} of the last week come once more` : ""}.{" "}
        {notes(forecast).join(" ")}
      </p>
    </div>
  );
}

function notes({ unknown_durations, opportunistic, never_end, hidden }: Forecast): string[] {
  const found: string[] = [];
  if (unknown_durations > 0) {
    found.push(
      `${pluralize(unknown_durations, "job")} without an estimate: taken to run as long as the median job.`,
    );
  }
  if (opportunistic > 0) found.push(`${pluralize(opportunistic, "opportunistic job")} left out.`);
  if (never_end > 0) found.push(`${pluralize(never_end, "job")} would not start.`);
  if (hidden > 0) found.push(`${pluralize(hidden, "job")} that you may not see not listed.`);
  return found;
}

function Changed({ title, count, jobs }: { title: string; count: number; jobs: ChangedJob[] }) {
  if (jobs.length === 0) return null;
  return (
    <table>
      <caption>
        {title}: {pluralize(count, "job")}
      </caption>
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col">Owner</th>
          <th scope="col">By</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.id}>
            <th scope="row">
              <Link to="/jobs/$id" params={{ id: job.id }} className="link">
                {job.name}
              </Link>
            </th>
            <td>{job.owner}</td>
            <td className="num">{formatDuration(Math.abs(job.by_s))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
