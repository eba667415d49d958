import type { CheckedAssignment } from "@/api/types";
import { count } from "@/format/size";
import { Icon } from "@/ui/Icon";
import { PathList } from "./PathList";
import css from "./ImportVerdict.module.css";

/** What is wrong with a file, each with its path; or what importing it would do. */
export function ImportVerdict({ check, busy }: { check: CheckedAssignment; busy: boolean }) {
  const { fits, errors, problems } = check;
  return (
    <section className={css.verdict} data-busy={busy || undefined} aria-busy={busy}>
      <p className={fits ? css.good : css.no} role="status">
        <Icon name={fits ? "check" : "cross"} size={14} />
        {fits ? "Nothing is wrong with it" : count(errors.length, "mistake")}
      </p>
      {fits ? <Effects check={check} /> : null}
      {errors.length > 0 ? <PathList label="Mistakes" items={errors} /> : null}
      {problems.length > 0 ? (
        <>
          <p className={css.odd}>{count(problems.length, "oddity", "oddities")}, no hindrance</p>
          <PathList label="Oddities" items={problems} />
        </>
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
