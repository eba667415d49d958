import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { doctor } from "@/api/operations";
import type { components } from "@/api/schema";
import { pluralize } from "@/format/numbers";
import { ErrorState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { StaleNote } from "@/ui/StaleNote";
import css from "./HealthPage.module.css";

type Examined = components["schemas"]["Examined"];

const WORDS = { error: "Error", warning: "Warning", note: "Note", ok: "Fine" };

/** Checks everything that the platform stands on, when asked to, and says what to do. */
export function DoctorReport() {
  const query = useQuery(doctor);
  const { data, error, isFetching, refetch } = query;
  return (
    <section aria-labelledby="doctor" className={css.part}>
      <div className={css.titled}>
        <h2 id="doctor">Doctor</h2>
        <Button variant="default" loading={isFetching} onClick={() => void refetch()}>
          Run all checks
        </Button>
      </div>
      <p className="dim">
        Settings, processes, clocks, database, queues, stores, backup, agents, drivers, GPUs, disks,
        ports, certificates and registries. On the command line: <code>skep admin doctor</code>.
      </p>
      {error && !data ? (
        <ErrorState error={error} what="report of the doctor" retry={() => void refetch()} />
      ) : null}
      <StaleNote query={query} what="report of the doctor" />
      <p role="status">{data ? summaryOf(data.checks) : null}</p>
      {data ? (
        <ul className={css.findings} aria-label="Findings">
          {worstFirst(data.checks).map(([check, one]) => finding(check, one))}
        </ul>
      ) : null}
    </section>
  );
}

/** "1 error, 2 warnings, 30 fine": also for who does not see that the list has come. */
function summaryOf(checks: Examined[]): string {
  const found = checks.flatMap(({ findings }) => findings.map(({ severity }) => severity));
  const count = (severity: string) => found.filter((each) => each === severity).length;
  return [
    pluralize(count("error"), "error"),
    pluralize(count("warning"), "warning"),
    pluralize(count("note"), "note"),
    `${count("ok")} fine`,
  ].join(", ");
}

const ORDER = ["error", "warning", "note", "ok"];

/** What has to be done stands above what is fine; else in the order of the checks. */
function worstFirst(checks: Examined[]) {
  const found = checks.flatMap((check) => check.findings.map((one) => [check, one] as const));
  return found.toSorted(([, a], [, b]) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
}

function finding({ check }: Examined, one: Examined["findings"][number]) {
  return (
    <li key={`${check} ${one.code} ${one.message}`} data-severity={one.severity}>
      <Icon name={one.severity === "ok" ? "check" : "warning"} size={16} />
      <span className={css.severity}>{WORDS[one.severity]}</span>
      <span className={css.check}>{check}</span>
      <span className={css.about}>
        {one.message}
        {one.action ? <span className={css.action}>{one.action}</span> : null}
      </span>
    </li>
  );
}
