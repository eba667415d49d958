import { Link } from "@tanstack/react-router";
import { count } from "@/format/size";
import css from "./JobChips.module.css";

interface Props {
  jobs: { id: string; name: string; gpus: number }[];
  lit: string | null;
  onLight: (job: string | null) => void;
}

const MOST = 16;

/** The jobs on these cells; pointing at one shows where it lies. */
export function JobChips({ jobs, lit, onLight }: Props) {
  if (jobs.length === 0) return null;
  return (
    <ul className={css.chips} aria-label="Jobs on these cells" onPointerLeave={() => onLight(null)}>
      {jobs.slice(0, MOST).map(({ id, name, gpus }) => (
        <li key={id}>
          <Link
            to="/jobs/$id"
            params={{ id }}
            className={css.chip}
            aria-label={`${name}: ${count(gpus, "GPU")}`}
            data-lit={lit === id || undefined}
            onPointerEnter={() => onLight(id)}
            onFocus={() => onLight(id)}
            onBlur={() => onLight(null)}
          >
            <span className="clip">{name}</span>
            <span className={css.gpus}>{gpus}</span>
          </Link>
        </li>
      ))}
      {jobs.length > MOST ? <li className="dim">and {jobs.length - MOST} more</li> : null}
    </ul>
  );
}
