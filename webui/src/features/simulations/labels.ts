import type { Policy } from "@/api/types";

type Family = Policy["family"];

/** What the policies of a family decide, in the order in which families are listed. */
const FAMILIES: Record<Family, string> = {
  order: "Who is first",
  share: "Fair shares of the time",
  deadline: "Deadlines",
  elastic: "Sizes of elastic jobs",
  packing: "Several jobs on a GPU (simulated only)",
  learned: "Learned (simulated only)",
};

/** Policies as the data of a choice, below what their family decides. */
export function byFamily<Known extends { name: string; family: Family }>(
  policies: Known[],
  label: (policy: Known) => string,
): { group: string; items: { value: string; label: string }[] }[] {
  return Object.entries(FAMILIES)
    .map(([family, group]) => ({
      group,
      items: policies
        .filter((policy) => policy.family === family)
        .map((policy) => ({ value: policy.name, label: label(policy) })),
    }))
    .filter(({ items }) => items.length > 0);
}

/** A policy with its parameters, in words. */
export function policyLabel(policy: string): string {
  const [name = "", parameters] = policy.split(":", 2);
  const words = name.replaceAll("_", " ");
  return parameters ? `${words} (${parameters})` : words;
}

/** The share of the jobs that ended, in percent. */
export function percentDone({
  jobs_ended,
  jobs_total,
}: {
  jobs_ended: number;
  jobs_total: number;
}): number {
  return jobs_total ? Math.min(100, Math.round((100 * jobs_ended) / jobs_total)) : 0;
}
