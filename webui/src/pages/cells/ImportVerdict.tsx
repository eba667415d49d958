import type { CheckedAssignment } from "@/api/types";
import { count } from "@/format/size";
import { Icon } from "@/ui/Icon";
import css from "./ImportVerdict.module.css";

/** What is wrong with a file, each with its path; or what importing it would do. */
export function ImportVerdict({ check, busy }: { check: CheckedAssignment; busy: boolean }) {
  const { fits, errors } = check;
  return (
    <section className={css.verdict} data-busy={busy || undefined} aria-busy={busy}>
      <p className={fits ? css.good : css.no} role="status">
        <Icon name={fits ? "check" : "cross"} size={14} />
        {fits ? "Nothing is wrong with it" : count(errors.length, "mistake")}
      </p>
      {fits ? <Effects check={check} /> : null}
      {errors.length > 0 ? (
        <ul className={css.errors} tabIndex={0} aria-label="Mistakes">
          {errors.map((error) => (
            <li key={error.path + error.message}>
              {error.path ? <code>{error.path}</code> : null}
              <p>{error.message}</p>
            </li>
          ))}
        </ul>
      ) : null}
    </section>
  );
}

function Effects({ check }: { check: CheckedAssignment }) {
  const { left, downgraded, restored, shortfalls } = check;
  const chains = new Set(left.map((each) => each.chain)).size;
  return (
    <ul className={css.effects}>
      <li>
        {count(left.length, "type")} of cells in {count(chains, "chain")}.
      </li>
      {shortfalls.map(({ virtual_cluster, cell_type, asked, got }) => (
        <li key={virtual_cluster + cell_type} className={css.mind}>
          {virtual_cluster} would own {asked} × {cell_type}, and {got} are there.
        </li>
      ))}
      <li>
        {downgraded.length === 0
          ? "No running job loses its guarantee."
          : `${count(downgraded.length, "running job")} would go on as opportunistic: ${names(downgraded)}.`}
      </li>
      {restored.length > 0 ? (
        <li>
          {count(restored.length, "job")} would be guaranteed again: {names(restored)}.
        </li>
      ) : null}
    </ul>
  );
}

function names(jobs: CheckedAssignment["downgraded"]): string {
  const first = jobs.slice(0, 8).map((job) => job.name);
  return [...first, ...(jobs.length > 8 ? [`${jobs.length - 8} more`] : [])].join(", ");
}
