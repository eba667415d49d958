import { useQuery } from "@tanstack/react-query";
import { policyCheck } from "@/api/simulations";
import type { PolicyCheck as Checked, VirtualCluster } from "@/api/types";
import { pluralize } from "@/format/numbers";
import css from "./PolicyForecast.module.css";

type Lacking = Checked["lacking"][number];

/** What a policy must know of jobs, and which of the present jobs lack it. */
export function PolicyCheck({ vc, policy }: { vc: string; policy: VirtualCluster["policy"] }) {
  const { data } = useQuery(policyCheck(vc, policy));
  const lines = data ? linesOf(data) : [];
  if (lines.length === 0) return null;
  return (
    <ul className={css.check} aria-label="What it asks of jobs">
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  );
}

const FACTS: Record<Lacking["fact"], string> = {
  duration: "how long jobs run",
  deadline: "the deadlines of jobs",
  history: "earlier jobs that were like a job",
};

function linesOf(data: Checked): string[] {
  const lines = data.lacking.map((one) => factLine(one, data.jobs));
  if (data.lacking.some((one) => one.jobs > 0)) lines.push(data.otherwise);
  if (data.preempts) {
    const firm = data.not_preemptible;
    const never = firm > 0 ? `; ${pluralize(firm, "job")} of ${data.jobs} here never do` : "";
    lines.push(`Running jobs yield to others of the same priority${never}.`);
  }
  if (data.resizes)
    lines.push(
      `It chooses the size of elastic jobs: ${data.elastic} of ${pluralize(data.jobs, "job")} here.`,
    );
  return lines;
}

function factLine({ fact, jobs, examples }: Lacking, all: number): string {
  const needs = `It must know ${FACTS[fact]}`;
  if (all === 0) return `${needs}.`;
  if (jobs === 0) return `${needs}, and does of all ${pluralize(all, "job")} here.`;
  const names = examples.map((job) => job.name).join(", ");
  return `${needs}. It does not of ${jobs} of ${pluralize(all, "job")} here, such as ${names}.`;
}
