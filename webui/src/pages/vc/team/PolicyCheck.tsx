import { useQuery } from "@tanstack/react-query";
import { policyCheck } from "@/api/simulations";
import type { PolicyCheck as Checked, VirtualCluster } from "@/api/types";
import { formatPercent, pluralize } from "@/format/numbers";
import { isUnread, ReadNote } from "@/ui/ReadNote";
import css from "./PolicyForecast.module.css";

type Lacking = Checked["lacking"][number];
type Ended = Checked["ended"];

/** What a policy must know or assumes of jobs, and how many lack it: now, and last month. */
export function PolicyCheck({ vc, policy }: { vc: string; policy: VirtualCluster["policy"] }) {
  const query = useQuery(policyCheck(vc, policy));
  const lines = query.data ? linesOf(query.data) : [];
  if (isUnread(query)) {
    return (
      <div className={css.check}>
        <ReadNote query={query} what="list of what it asks of jobs" />
      </div>
    );
  }
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
  speeds: "how fast jobs are on each GPU model",
  speedup: "how fast elastic jobs are at each size",
  restart: "what a restart costs, as measured",
};

function linesOf(data: Checked): string[] {
  const lines = data.lacking.map((one) => factLine("It must know", one, data));
  if (data.lacking.some((one) => one.jobs > 0 || one.ended_jobs > 0)) lines.push(data.otherwise);
  for (const one of data.assumed) {
    const line = factLine("It decides by", one, data);
    const otherwise = one.otherwise.replace(/^It /, "the job ");
    lines.push(
      one.jobs > 0 || one.ended_jobs > 0 ? `${line} Where that is not known, ${otherwise}` : line,
    );
  }
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

function factLine(verb: string, fact: Lacking, { jobs: all, ended }: Checked): string {
  const needs = `${verb} ${FACTS[fact.fact]}`;
  const past = pastOf(fact, ended);
  if (all === 0) return `${needs}.${past}`;
  if (fact.jobs === 0) return `${needs}, and knows it of all ${pluralize(all, "job")} here.${past}`;
  // Without names where you may not see these jobs.
  const names = fact.examples.map((job) => job.name).join(", ");
  const such = names ? `, such as ${names}` : "";
  return `${needs}. It does not know it of ${fact.jobs} of ${pluralize(all, "job")} here${such}.${past}`;
}

/** Of the jobs of last month, as a short queue may have none that shows it. */
function pastOf({ ended_jobs, ended_share }: Lacking, ended: Ended): string {
  if (ended.jobs === 0) return "";
  const share =
    ended_share === null ? "" : ` (${formatPercent(100 * ended_share)} of the GPU time)`;
  return ` Of the last ${ended.days} days: unknown of ${ended_jobs} of ${pluralize(ended.jobs, "job")} that ended${share}.`;
}
